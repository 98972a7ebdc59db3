// All heads of all layers small, one of them large.

import { asTable, button, element, find, paper, percent, roving, stop } from "./dom.js";
import { cellAt, paint } from "./heatmap.js";
import { weightsOf } from "./looking.js";
import { looked } from "./store.js";
import { shown } from "./text.js";

const KINDS = {
  encoder: { name: "Encoder", says: "every token of the source looks at all of the source", query: "source" },
  decoder: { name: "Decoder", says: "a token being written looks at what was written before it", query: "target" },
  cross: { name: "Cross", says: "a token being written looks at the source", query: "target" },
};
const CELL = 20; // px of a cell in the large picture
const THUMB = 3;

const pieces = (side) => side.tokens.map((token) => shown(token.piece));
const sides = (seen, kind) => ({
  queries: pieces(seen[KINDS[kind].query]),
  keys: kind === "decoder" ? seen.read.map(shown) : pieces(seen.source),
});
const named = ({ layer, head }) => `layer ${layer + 1}, ${head === null ? "mean of the heads" : `head ${head + 1}`}`;

export function attentionView(page, look) {
  const box = find("#attention");
  const kinds = element("div", { class: "choice", role: "radiogroup", "aria-label": "Which attention" });
  const thumbs = element("div", { class: "thumbs wide", role: "group" });
  const large = element("div", { class: "large" });
  let canvas = null;
  let labels = { queries: [], keys: [] };
  let hover = null;

  const radios = Object.entries(KINDS).map(([kind, { name }]) => {
    const input = element("input", { type: "radio", name: "kind", value: kind,
      onchange: () => page.set({ view: { kind, layer: -1, head: null } }) });
    kinds.append(element("label", {}, input, name));
    return input;
  });
  box.append(kinds, thumbs, large);

  function view(state, seen) {
    const layers = seen.attention[state.view.kind].length;
    return { ...state.view, layer: state.view.layer < 0 ? layers - 1 : state.view.layer };
  }

  function drawThumbs(state, seen) {
    const open = view(state, seen);
    const layers = seen.attention[open.kind];
    const items = layers.flatMap((heads, layer) => [null, ...heads.keys()].map((head) => {
      const mine = { kind: open.kind, layer, head };
      const picture = element("canvas", { "aria-hidden": "true" });
      const chosen = layer === open.layer && head === open.head;
      const made = button(null, () => page.set({ view: mine }), {
        class: "thumb", "aria-label": named(mine), "aria-pressed": String(chosen), tabindex: chosen ? "0" : "-1",
        title: named(mine), onkeydown: (event) => moved(event, items, layers[0].length + 1),
      });
      made.append(picture);
      return made;
    }));
    const heads = ["mean", ...layers[0].map((_, head) => `head ${head + 1}`)];
    const width = layers[0].length + 1;
    thumbs.style.setProperty("--columns", width);
    thumbs.setAttribute("aria-label", `${KINDS[open.kind].name}: layers and heads; arrow keys move, Enter opens`);
    thumbs.replaceChildren(element("span"), ...heads.map((head) => element("span", { class: "label" }, head)),
      ...layers.flatMap((_, layer) => [element("span", { class: "label" }, `layer ${layer + 1}`),
        ...items.slice(layer * width, (layer + 1) * width)]));
    items.forEach((item, at) => paint(item.firstChild,
      weightsOf(seen, { kind: open.kind, layer: Math.floor(at / width), head: at % width ? (at % width) - 1 : null }), THUMB));
    return items;
  }

  function moved(event, items, width) {
    const at = items.indexOf(event.currentTarget);
    const to = { ArrowDown: at + width, ArrowUp: at - width }[event.key];
    if (to === undefined) return roving(items, event);
    event.preventDefault();
    if (!items[to]) return undefined;
    stop(items, items[to]);
    return items[to].focus();
  }

  function drawLarge(state, seen) {
    const open = view(state, seen);
    const weights = weightsOf(seen, open);
    const { queries, keys } = sides(seen, open.kind);
    const caption = `${KINDS[open.kind].name} attention, ${named(open)}`;
    canvas = element("canvas", { role: "img", "aria-label": `${caption}; the table below has its numbers`,
      onpointermove: (event) => point(cellAt(canvas, weights, event)), onpointerleave: () => point(null),
      onclick: (event) => { const at = cellAt(canvas, weights, event); if (at) look.set("token", range(at.q)); } });
    const range = (q) => ({ sentence: state.chosen, side: KINDS[open.kind].query, begin: q, end: q + 1 });
    const point = (at) => {
      hover = at;
      if (at) look.set("pointed", range(at.q));
      else look.leave();
      large.querySelector(".says").textContent = at ? cellSays(at) : summary();
    };
    const cellSays = ({ q, k }) => `“${queries[q]}” gives “${keys[k]}” ${percent(weights[q][k])} of its attention.`;
    const summary = () => `${caption}: ${KINDS[open.kind].says}.`;
    labels = {
      queries: queries.map((piece) => element("span", {}, piece)),
      keys: keys.map((piece) => element("span", {}, element("span", {}, piece))),
    };
    const grid = element("div", { class: "heat" },
      element("div", { class: "corner" }, element("span", {}, "looks at →")),
      element("div", { class: "keys", "aria-hidden": "true" }, ...labels.keys),
      element("div", { class: "queries", "aria-hidden": "true" }, ...labels.queries),
      element("div", { class: "map" }, canvas, open.kind === "decoder" ? triangle(queries.length) : null));
    grid.style.setProperty("--rows", queries.length);
    grid.style.setProperty("--columns", keys.length);
    grid.style.setProperty("--cell", `${CELL}px`);
    const rows = () => queries.map((query, q) => [query, ...weights[q].map((weight) => percent(weight))]);
    const says = element("p", { class: "says" }, summary());
    const masked = open.kind === "decoder" ? causal() : null;
    const wide = element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption }, grid);
    const kept = large.querySelector("details")?.open;
    const table = asTable(caption, ["token", ...keys], rows);
    large.replaceChildren(says, wide, ...(masked ? [masked] : []), table);
    if (kept) table.open = true;
    paint(canvas, weights, CELL);
  }

  function mark(state) {
    const at = looked(state);
    const query = KINDS[state.view.kind].query;
    const on = (side, index) => at?.sentence === state.chosen && at.side === side && at.begin <= index && index < at.end;
    labels.queries.forEach((one, index) => one.classList.toggle("marked", on(query, index)));
    labels.keys.forEach((one, index) => one.classList.toggle("marked", hover?.k === index
      || (state.view.kind === "decoder" ? on("target", index - 1) && index > 0 : on("source", index))));
  }

  page.on((state, before) => {
    const seen = state.inspected.get(state.chosen);
    if (!seen) return;
    const anew = seen !== before.inspected.get(before.chosen) || state.view !== before.view || !canvas;
    if (anew) {
      for (const radio of radios) radio.checked = radio.value === state.view.kind;
      const focused = thumbs.contains(document.activeElement);
      const items = drawThumbs(state, seen);
      if (focused) items.find((item) => item.tabIndex === 0)?.focus();
      drawLarge(state, seen);
    }
    mark(state);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => page.set({ view: { ...page.get().view } }));
}

/** The part of the picture that is always empty, by its name. */
function triangle(size) {
  return size < 5 ? null : element("span", { class: "triangle", "aria-hidden": "true" }, "masked: not written yet");
}

function causal() {
  return element("p", { class: "about" }, "The empty triangle is the causal mask: a token must not see what comes after it, " +
    "or it could copy what it has to predict (", element("a", { href: paper("S3.SS2.SSS3"), rel: "noopener" }, "§3.2.3"), ").");
}
