"use strict";
// --- the table of flows, by any column: numbers and words, what has no value last
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  table.tHead.addEventListener("click", (event) => {
    const button = event.target.closest("[data-sort]");
    if (!button) return;
    const column = Number(button.dataset.sort);
    const before = heads[column].getAttribute("aria-sort");
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => {
      const text = row.cells[column].dataset.value;
      return { row, text, value: text === "" ? NaN : Number(text) };
    });
    const isNumber = rows.every(({ text, value }) => text === "" || !Number.isNaN(value));
    // What is most is of interest first; words and numbers of flows begin with the least.
    const down = before ? before === "ascending" : isNumber && column > 0;
    const order = (a, b) => {
      if ((a.text === "") !== (b.text === "")) return a.text === "" ? 1 : -1;
      const by = isNumber ? a.value - b.value : a.text.localeCompare(b.text);
      return down ? -by : by;
    };
    body.append(...rows.sort(order).map(({ row }) => row));
    for (const head of heads) head.removeAttribute("aria-sort");
    heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
  });
}
