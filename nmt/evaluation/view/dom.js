// All elements are created here, so that text is never interpreted as markup.

const SVG = "http://www.w3.org/2000/svg";

export const find = (selector) => document.querySelector(selector);

/** Creates an element with attributes, listeners ("onclick") and children; null and false are left out. */
export function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** Returns the address of a section of the paper, by its anchor, or of the whole paper for "". */
export const paper = (section) => `https://arxiv.org/html/1706.03762v7${section && `#${section}`}`;

export const button = (text, onclick, attributes = {}) =>
  element("button", { type: "button", onclick, ...attributes }, text);

/** Returns the message of an error, with a button that tries again. */
export const failure = ({ message }, again) => element("p", { class: "blind" }, message, " ", button("Try again", again));

/** Moves the tab stop of a group with the arrow keys. `items` are in reading order. */
export function roving(items, event, { across = "ArrowRight", back = "ArrowLeft" } = {}) {
  const at = items.indexOf(event.target);
  const to = { [across]: at + 1, [back]: at - 1, Home: 0, End: items.length - 1 }[event.key];
  if (at < 0 || to === undefined || !items[to]) return;
  event.preventDefault();
  stop(items, items[to]);
  items[to].focus();
}

/** Makes one item the only tab stop of a group. */
export function stop(items, one) {
  for (const item of items) item.setAttribute("tabindex", item === one ? "0" : "-1");
}

/** Returns a collapsed table of the numbers in a picture; `rows()` is called when it is opened, and returns lists of cells. */
export function asTable(caption, heads, rows, summary = "As a table") {
  const box = element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": `${caption}, as a table` });
  const details = element("details", { class: "as-table" }, element("summary", {}, summary), box);
  details.addEventListener("toggle", () => {
    if (!details.open) return;
    const head = heads.map((text) => element("th", { scope: "col" }, text));
    const body = rows().map(([first, ...cells]) => element("tr", {},
      element("th", { scope: "row" }, first), ...cells.map((cell) => element("td", {}, cell))));
    box.replaceChildren(element("table", {}, element("caption", {}, caption),
      element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body)));
  });
  return details;
}

export const percent = (p) => (p < 0.0005 ? "< 0.1%" : `${(100 * p).toFixed(p < 0.1 || p >= 0.995 ? 1 : 0)}%`);
export const decimal = (value, digits = 3) => value.toFixed(digits).replace("-", "−");
