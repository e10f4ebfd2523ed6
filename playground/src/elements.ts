// Elements of the page: found by their id, and made.

export const by = <T extends Element = HTMLElement>(id: string): T => document.getElementById(id) as unknown as T;

export function make<K extends keyof HTMLElementTagNameMap>(tag: K, text = "", of: Partial<HTMLElementTagNameMap[K]> = {}): HTMLElementTagNameMap[K] {
  const it = document.createElement(tag);
  if (text !== "") it.textContent = text;
  return Object.assign(it, of);
}
