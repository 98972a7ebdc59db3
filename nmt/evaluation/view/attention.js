// Shows attention as heat maps: small ones of all heads and layers, and a large one of the open head. Used by
// `nmt serve`, `nmt attention` and `nmt report`. In each heat map, queries are rows and keys are columns.

import { asTable, button, element, paper, percent, roving, stop } from "./dom.js";

const KINDS = {
  encoder: { name: "Encoder", says: "each source token attends to the whole source", queries: "source", keys: "source" },
  decoder: { name: "Decoder", says: "each target token attends to the tokens before it", queries: "target", keys: "read" },
  cross: { name: "Cross", says: "each target token attends to the source", queries: "target", keys: "source" },
};

export const QUERIES = Object.fromEntries(Object.entries(KINDS).map(([kind, { queries }]) => [kind, queries]));
export const FIRST = { kind: "cross", layer: -1, head: null }; // the initial view: the mean of the last layer's heads

// Key positions that are typical of heads, by name. Each is a function of the query's index q and the number of keys n.
const PLACES = {
  encoder: { "previous token": (q) => q - 1, itself: (q) => q, "next token": (q) => q + 1, "end of the source": (_, n) => n - 1 },
  decoder: { "last written token": (q) => q, "the one before it": (q) => q - 1, start: () => 0 },
  cross: { "same position": (q) => q, "next position": (q) => q + 1, "end of the source": (_, n) => n - 1 },
};
const ALIKE = 0.02; // heads whose difference is smaller are reported as almost equal

/** Returns the mean weight at a key position, over the queries for which it exists. */
function weightAt(weights, place) {
  const found = weights.map((row, q) => row[place(q, row.length)]).filter((weight) => weight !== undefined);
  return found.reduce((sum, weight) => sum + weight, 0) / found.length;
}

/** Returns the share of attention that two heads give to different keys, averaged over the queries. */
const difference = (one, other) => one.reduce((sum, row, q) =>
  sum + row.reduce((part, weight, k) => part + Math.abs(weight - other[q][k]), 0) / 2, 0) / one.length;

/** Returns the head of a layer with the weights closest to those of `head`, and their difference: {head, by}. */
function closest(heads, head) {
  const others = heads.map((each, n) => ({ head: n, by: difference(each, heads[head]) })).filter((each) => each.head !== head);
  return others.reduce((best, each) => (each.by < best.by ? each : best), { by: Infinity });
}

/** Returns one head's weights, [query][key], or the mean of all heads. `attention` is [kind][layer][head][query][key]. */
export function weightsOf(attention, { kind, layer, head }) {
  const heads = attention[kind].at(layer);
  if (head !== null) return heads[head];
  return heads[0].map((row, q) => row.map((_, k) => heads.reduce((sum, each) => sum + each[q][k], 0) / heads.length));
}

/**
 * Fills an empty box. `open(view)` is called when another heat map is chosen, and should call `show`.
 * `kinds`: whether the box offers a choice of the kind of attention.
 * `point(query)` is called when the pointer is over a row, or leaves the rows (null); `choose(query)` when a row is clicked.
 * `show(maps, view)` draws: maps.source, maps.target and maps.read are pieces; maps.attention is as in `weightsOf`.
 * `mark(isQuery, isKey)` highlights the labels under the pointer, and those for whose index the function returns true.
 */
export function attentionView(box, { open, point = () => {}, choose = () => {}, kinds: offered = true }) {
  const kinds = element("div", { class: "choice", role: "radiogroup", "aria-label": "Which attention" });
  const thumbs = element("div", { class: "thumbs wide", role: "group" });
  const large = element("div", { class: "large" });
  const group = `attention-${Math.random().toString(36).slice(2)}`;
  let shown = null; // {maps, view}
  let labels = { queries: [], keys: [] };
  let marked = [() => false, () => false];
  let hover = null; // {q, k}

  const radios = Object.entries(KINDS).map(([kind, { name }]) => {
    const input = element("input", { type: "radio", name: group, value: kind, onchange: () => open({ ...FIRST, kind }) });
    kinds.append(element("label", {}, input, name));
    return input;
  });
  box.classList.add("attention-view");
  box.append(...(offered ? [kinds] : []), thumbs, large);

  function drawThumbs({ attention }, view) {
    const layers = attention[view.kind];
    const width = layers[0].length + 1; // the mean comes first
    const items = layers.flatMap((heads, layer) => [null, ...heads.keys()].map((head) => {
      const mine = { kind: view.kind, layer, head };
      const isOpen = layer === view.layer && head === view.head;
      const made = button(null, () => open(mine), {
        class: "thumb", "aria-label": named(mine), "aria-pressed": String(isOpen), tabindex: isOpen ? "0" : "-1",
        title: named(mine), onkeydown: (event) => moved(event, items, width),
      });
      made.append(element("canvas", { "aria-hidden": "true" }));
      return made;
    }));
    const heads = ["mean", ...layers[0].map((_, head) => `head ${head + 1}`)];
    thumbs.style.setProperty("--columns", width);
    thumbs.setAttribute("aria-label", `${KINDS[view.kind].name}: layers and heads; arrow keys move, Enter opens`);
    thumbs.replaceChildren(element("span"), ...heads.map((head) => element("span", { class: "label" }, head)),
      ...layers.flatMap((_, layer) => [element("span", { class: "label" }, `layer ${layer + 1}`),
        ...items.slice(layer * width, (layer + 1) * width)]));
    items.forEach((item, at) => paint(item.firstChild,
      weightsOf(attention, { kind: view.kind, layer: Math.floor(at / width), head: at % width ? (at % width) - 1 : null })));
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

  function drawLarge(maps, view) {
    const { name, says } = KINDS[view.kind];
    const [queries, keys] = [maps[KINDS[view.kind].queries], maps[KINDS[view.kind].keys]];
    const weights = weightsOf(maps.attention, view);
    const caption = `${name} attention, ${named(view)}`;
    const line = element("p", { class: "says" });
    const canvas = element("canvas", { role: "img", "aria-label": `${caption}; the table below lists the weights`,
      onpointermove: (event) => hovered(cellAt(canvas, weights, event)), onpointerdown: (event) => hovered(cellAt(canvas, weights, event)),
      onpointerleave: ({ pointerType }) => pointerType !== "touch" && hovered(null), // after a touch, the highlight stays
      onclick: (event) => { const at = cellAt(canvas, weights, event); if (at) choose(at.q); } });
    function hovered(at) {
      hover = at;
      point(at && at.q);
      const isHidden = at && view.kind === "decoder" && at.k > at.q;
      line.textContent = isHidden ? `“${queries[at.q]}” cannot attend to “${keys[at.k]}”, which is not generated yet.`
        : at ? `“${queries[at.q]}” gives “${keys[at.k]}” ${percent(weights[at.q][at.k])} of its attention.`
        : `${caption}: ${says}.`;
      drawMarks();
    }
    labels = {
      queries: queries.map((piece) => element("span", {}, piece)),
      keys: keys.map((piece) => element("span", {}, element("span", {}, piece))),
    };
    const isMasked = view.kind === "decoder";
    const grid = element("div", { class: "heat" },
      element("div", { class: "corner" }, element("span", {}, "attends to →")),
      element("div", { class: "keys", "aria-hidden": "true" }, ...labels.keys),
      element("div", { class: "queries", "aria-hidden": "true" }, ...labels.queries),
      element("div", { class: "map" }, canvas, isMasked ? triangle(queries.length) : null));
    grid.style.setProperty("--rows", queries.length);
    grid.style.setProperty("--columns", keys.length);
    const wasOpen = [...large.querySelectorAll("details")].map((details) => details.open);
    const rows = () => queries.map((query, q) => [query,
      ...Array.from(weights[q], (weight, k) => (isMasked && k > q ? "masked" : percent(weight)))]);
    const table = asTable(caption, ["token", ...keys], rows);
    const wide = element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption }, grid);
    large.replaceChildren(line, wide, ...coinciding(maps.attention[view.kind][view.layer], view.layer), ...(isMasked ? [causal()] : []),
      table, compared(maps.attention[view.kind], view.kind));
    large.querySelectorAll("details").forEach((details, n) => { details.open = wasOpen[n] ?? false; });
    hover = null;
    line.textContent = `${caption}: ${says}.`;
    paint(canvas, weights);
  }

  function drawMarks() {
    const [isQuery, isKey] = marked;
    labels.queries.forEach((one, index) => one.classList.toggle("marked", index === hover?.q || isQuery(index)));
    labels.keys.forEach((one, index) => one.classList.toggle("marked", index === hover?.k || isKey(index)));
  }

  function show(maps, given) {
    const view = { ...given, layer: given.layer < 0 ? maps.attention[given.kind].length - 1 : given.layer };
    shown = { maps, view };
    for (const radio of radios) radio.checked = radio.value === view.kind;
    const hadFocus = thumbs.contains(document.activeElement);
    const items = drawThumbs(maps, view);
    if (hadFocus) items.find((item) => item.tabIndex === 0)?.focus();
    drawLarge(maps, view);
    drawMarks();
  }

  function mark(isQuery, isKey) {
    marked = [isQuery, isKey];
    drawMarks();
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => shown && show(shown.maps, shown.view));
  return { show, mark };
}

/** Returns a table of all heads, with the weight at typical positions and the most similar head of the layer. */
function compared(layers, kind) {
  const places = Object.entries(PLACES[kind]);
  const rows = () => layers.flatMap((heads, layer) => heads.map((weights, head) => {
    const near = closest(heads, head);
    return [named({ layer, head }), ...places.map(([, place]) => percent(weightAt(weights, place))),
      near.by < Infinity ? `head ${near.head + 1}, differs by ${percent(near.by)}` : ""];
  }));
  return asTable("Mean weight that each head gives to a key (several columns can mean the same key), and the head with the most similar "
    + "weights: heads differ by x% if, on average over the queries, x% of the weights are on different keys", ["head", ...places.map(([name]) => name), "closest head of the layer"], rows, "Compare the heads");
}

/** Returns paragraphs that name heads of a layer with almost equal weights. */
function coinciding(heads, layer) {
  return heads.flatMap((_, head) => {
    const near = closest(heads, head);
    return near.by < ALIKE && head < near.head
      ? [element("p", { class: "about" }, `Heads ${head + 1} and ${near.head + 1} of layer ${layer + 1} differ by ${percent(near.by)} of their attention.`)] : [];
  });
}

const named = ({ layer, head }) => `layer ${layer + 1}, ${head === null ? "mean of the heads" : `head ${head + 1}`}`;

/** Draws each weight as one pixel, which the page's style enlarges. Full color stands for a weight of 1. */
function paint(canvas, weights) {
  [canvas.width, canvas.height] = [weights[0].length, weights.length];
  const context = canvas.getContext("2d");
  context.fillStyle = getComputedStyle(canvas).color;
  context.fillRect(0, 0, 1, 1);
  const [red, green, blue] = context.getImageData(0, 0, 1, 1).data;
  const picture = context.createImageData(canvas.width, canvas.height);
  let at = 0;
  for (const row of weights) {
    for (const weight of row) {
      const alpha = weight < 0.004 ? 0 : Math.min(1, weight) ** 0.7; // so that small weights are visible
      picture.data.set([red, green, blue, 255 * alpha], at);
      at += 4;
    }
  }
  context.putImageData(picture, 0, 0);
}

/** Returns the cell under the pointer. */
function cellAt(canvas, weights, event) {
  const box = canvas.getBoundingClientRect();
  const q = Math.floor(((event.clientY - box.top) / box.height) * weights.length);
  const k = Math.floor(((event.clientX - box.left) / box.width) * weights[0].length);
  return q in weights && k in weights[0] ? { q, k } : null;
}

/** Returns an element that hatches the masked part of the heat map, to distinguish it from weights of zero. */
function triangle(size) {
  const made = element("span", { class: "triangle hatched", "aria-hidden": "true" }, size < 5 ? "" : "masked");
  const at = (cells) => `${(100 * cells) / size}%`;
  const stairs = Array.from({ length: size }, (_, q) => `${at(q + 1)} ${at(q)}, ${at(q + 1)} ${at(q + 1)}`);
  made.style.clipPath = `polygon(${stairs.join(", ")}, 100% 0)`;
  return made;
}

function causal() {
  return element("p", { class: "about" }, "The hatched triangle is the causal mask: a token must not attend to later tokens, " +
    "or the model could copy what it has to predict (", element("a", { href: paper("S3.SS2.SSS3"), rel: "noopener" }, "§3.2.3"), ").");
}
