"use strict";
(() => {
  const root = document.documentElement;
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);

  // --- light and dark
  const toggle = document.getElementById("theme");
  const label = () => {
    toggle.textContent = isDark() ? "Light" : "Dark";
    toggle.setAttribute("aria-label", `Switch to the ${isDark() ? "light" : "dark"} look`);
  };
  toggle.hidden = false;
  label();
  toggle.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("airtcp-theme", root.dataset.theme); } catch { /* not remembered, then */ }
    changed();
  });
  prefersDark.addEventListener("change", () => changed());

  // --- plots: Plotly is unpacked when the first one comes near, each is drawn when it comes near
  let loading = null;
  const textOf = (id) => {
    const packed = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
    return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  };
  const unpacked = async () => {
    const script = document.createElement("script");
    script.textContent = await textOf("plotly");
    // Plotly brings a style for its maps, which the policy of the page refuses: for Plotly it is there already.
    for (const [, id] of script.textContent.matchAll(/getElementById\("([0-9a-f]{64})"\)/g)) {
      document.head.append(Object.assign(document.createElement("style"), { id }));
    }
    document.head.append(script);
    script.remove();
    return window.Plotly;
  };
  const drawn = new Map();

  const coloured = (figure) => {
    const text = css("--text"), grid = css("--grid"), line = css("--line"), ground = css("--ground");
    const data = figure.data.map((trace) => {
      const colour = css(`--s${trace.meta.colour}`);
      const t = { ...trace };
      if (trace.meta.band) {
        t.fillcolor = `${colour}${isDark() ? "3a" : "2b"}`;
        t.line = { ...trace.line, color: "rgba(0,0,0,0)" };
        return t;
      }
      if (trace.line) t.line = { ...trace.line, color: colour };
      t.marker = { ...trace.marker, color: colour };
      if (trace.marker?.pattern) t.marker.pattern = { ...trace.marker.pattern, fgcolor: ground, fillmode: "overlay" };
      if (trace.error_x) t.error_x = { ...trace.error_x, color: colour };
      if (trace.error_y) t.error_y = { ...trace.error_y, color: trace.type === "bar" ? text : colour };
      return t;
    });
    const family = getComputedStyle(document.body).fontFamily;
    const axis = (a) => ({ ...a, gridcolor: grid, linecolor: line, tickcolor: line });
    const layout = {
      ...figure.layout,
      xaxis: axis(figure.layout.xaxis),
      yaxis: axis(figure.layout.yaxis),
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { ...figure.layout.font, color: text, family },
      hoverlabel: { bgcolor: ground, bordercolor: line, font: { color: text, family }, align: "left", namelength: -1 },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: css("--soft"), activecolor: text },
    };
    layout.shapes = figure.clouds.map((cloud) => ({
      type: "path", path: cloud.path, xref: "x", yref: "y", opacity: 0.75,
      line: { color: css(`--s${cloud.meta.colour}`), width: cloud.width ?? 2.6 },
      meta: cloud.meta,
    }));
    return { data, layout };
  };
  // A dot is a line without length; its round ends make it visible.
  const floats = (text) => new Float32Array(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
  const path = (cloud) => {
    const { x0 = 0, y0 = 0 } = cloud;
    const x = floats(cloud.x), y = floats(cloud.y), parts = new Array(x.length);
    const x2 = cloud.x2 ? floats(cloud.x2) : x, y2 = cloud.y2 ? floats(cloud.y2) : y;
    for (let i = 0; i < x.length; i++) parts[i] = `M${x0 + x[i]},${y0 + y[i]}L${x0 + x2[i]},${y0 + y2[i]}`;
    return parts.join("");
  };

  const render = (plotly, place) => {
    const { figure, hidden } = drawn.get(place);
    const { data, layout } = coloured(figure);
    for (const part of [...data, ...layout.shapes]) {
      part.visible = !hidden.has(part.meta.series);
    }
    for (const shape of layout.shapes) delete shape.meta;
    // A picture would lose the round ends; `figures` has one.
    const first = layout.shapes.length ? [] : ["toImage"];
    return plotly.react(place, data, layout, {
      responsive: true,
      displaylogo: false,
      // A closed list: by default there is one that sends the data to a server.
      modeBarButtons: [[...first, "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
      plotlyServerURL: "",
      toImageButtonOptions: { format: "svg", filename: place.dataset.plot },
    });
  };
  const plotOf = async (place) => {
    const plotly = await (loading ??= unpacked());
    if (!drawn.has(place)) {
      const figure = JSON.parse(document.getElementById(`data-${place.dataset.plot}`).textContent);
      for (const cloud of figure.clouds) cloud.path = path(cloud);
      drawn.set(place, { figure, hidden: new Set() });
    }
    await render(plotly, place);
    place.dataset.drawn = "";
  };
  const failed = (error) => {
    while (pictures.length) unfold();
    root.classList.add("no-plots");
    console.error(error);
  };
  const places = [...document.querySelectorAll("[data-plot]")];
  // The policy of the page takes no style attributes.
  for (const place of places) if (place.dataset.rem) place.style.height = `${place.dataset.rem}rem`;
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      near.unobserve(entry.target);
      plotOf(entry.target).catch(failed);
    }
  }, { rootMargin: "600px 0px" });
  places.forEach((place) => near.observe(place));

  function changed() {
    label();
    for (const place of drawn.keys()) if ("drawn" in place.dataset) render(window.Plotly, place);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.series !== undefined) series(button);
    else if (button.dataset.filter) filter(button);
    else if (button.dataset.view) view(button);
    else if (button.dataset.copy !== undefined) copy(button);
  });
  function series(button) {
    const place = button.closest("figure").querySelector("[data-plot]");
    const state = drawn.get(place);
    if (!state) return;
    const shown = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(shown));
    state.hidden[shown ? "delete" : "add"](Number(button.dataset.series));
    render(window.Plotly, place);
  }

  // --- the table of findings, by verdict
  function filter(button) {
    const verdict = button.dataset.filter;
    for (const other of document.querySelectorAll("[data-filter]")) other.setAttribute("aria-pressed", String(other === button));
    let shown = 0;
    for (const row of document.querySelectorAll("tr[data-verdict]")) {
      row.hidden = verdict !== "all" && row.dataset.verdict !== verdict;
      shown += row.hidden ? 0 : 1;
    }
    document.getElementById("filter-says").textContent = `${shown} findings shown`;
  }

  // --- what the cells of a matrix show
  function view(button) {
    const section = button.closest("section");
    for (const other of section.querySelectorAll("[data-view]")) other.setAttribute("aria-pressed", String(other === button));
    for (const one of section.querySelectorAll("[data-of]")) one.classList.toggle("later", one.dataset.of !== button.dataset.view);
  }

  // --- commands to the clipboard; a page opened as a file may not have the newer way
  async function copy(button) {
    const says = button.querySelector("[aria-live]");
    let done = true;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
    } catch {
      const area = document.createElement("textarea");
      area.value = button.dataset.copy;
      area.style.position = "fixed";
      document.body.append(area);
      area.select();
      done = document.execCommand("copy");
      area.remove();
      button.focus();
    }
    says.textContent = done ? "Copied" : "Failed";
    setTimeout(() => { says.textContent = "Copy"; }, 1600);
  }

  // --- the numbers of a plot, as a table once someone asks for it
  for (const details of document.querySelectorAll("details.data")) {
    details.addEventListener("toggle", () => {
      const place = details.querySelector(".scroll");
      if (!details.open || place.firstChild) return;
      const figure = details.closest("figure");
      const { head, rows } = JSON.parse(figure.querySelector("script").textContent).table;
      const table = document.createElement("table");
      const add = (parent, name, text) => {
        const element = parent.appendChild(document.createElement(name));
        if (text !== undefined) element.textContent = text;
        return element;
      };
      const top = add(add(table, "thead"), "tr");
      for (const text of head) add(top, "th", text).scope = "col";
      const body = add(table, "tbody");
      for (const row of rows) {
        const line = add(body, "tr");
        row.forEach((text, i) => { add(line, "td", text).className = i ? "num" : ""; });
      }
      place.append(table);
    });
  }

  // --- print shows everything. Its pictures become images when the page has time, at the latest when it is printed.
  const pictures = [...document.querySelectorAll("noscript.picture")];
  const unfold = () => {
    const place = pictures.shift();
    const template = document.createElement("template");
    template.innerHTML = place.textContent;
    place.replaceWith(template.content);
  };
  const idle = window.requestIdleCallback ?? ((work) => setTimeout(() => work({ timeRemaining: () => 1 }), 50));
  const unfoldSome = (deadline) => {
    do { if (pictures.length) unfold(); } while (pictures.length && deadline.timeRemaining() > 10);
    if (pictures.length) idle(unfoldSome);
  };
  addEventListener("load", () => idle(unfoldSome));
  // Where a page has no pictures, its plots are printed: one after the other, as the page has time.
  const drawSome = () => {
    const place = places.find((place) => !drawn.has(place));
    if (!place) return;
    near.unobserve(place);
    plotOf(place).then(() => idle(drawSome), failed);
  };
  if (!pictures.length) addEventListener("load", () => idle(drawSome));
  let opened = [];
  addEventListener("beforeprint", () => {
    while (pictures.length) unfold();
    opened = [...document.querySelectorAll("details:not([open]):not(.data)")];
    for (const element of opened) element.open = true;
  });
  addEventListener("afterprint", () => { for (const element of opened) element.open = false; });

  // A link to a finding goes to it and takes the keyboard along; a link to what is folded opens it.
  const arrive = () => {
    const id = decodeURIComponent(location.hash.slice(1));
    const target = id && document.getElementById(id);
    if (target && target.classList.contains("finding")) target.focus({ preventScroll: true });
    if (target && target.tagName === "DETAILS") target.open = true;
  };
  addEventListener("hashchange", arrive);
  arrive();

  // --- runs to be made here: the simulator is unpacked when the first one is asked for
  let simulator = null;
  const given = '<script type="application/json" id="given">';
  for (const box of document.querySelectorAll(".here")) {
    const runs = JSON.parse(document.getElementById(`runs-${box.dataset.runs}`).textContent);
    const select = box.querySelector("select"), button = box.querySelector("button");
    select.append(...runs.map((run, i) => new Option(run.text, i)));
    box.hidden = false;
    let frame = null;
    const close = () => {
      URL.revokeObjectURL(frame.src);
      frame.remove();
      frame = null;
      button.textContent = "Run";
    };
    button.addEventListener("click", async () => {
      if (frame) return close();
      button.disabled = true;
      try {
        const page = await (simulator ??= textOf("simulator"));
        const run = runs[select.value];
        frame = document.createElement("iframe");
        frame.sandbox = "allow-scripts allow-downloads";
        frame.title = `Simulator: ${run.text}`;
        frame.src = URL.createObjectURL(new Blob([page.replace(given, () => given + run.fragment)], { type: "text/html" }));
        box.closest(".group").after(frame);
        button.textContent = "Close";
      } finally {
        button.disabled = false;
      }
    });
    select.addEventListener("change", () => {
      if (!frame) return;
      close();
      button.click();
    });
  }
})();
