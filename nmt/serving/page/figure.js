// Figure 1 of the paper for the served model. A click on a part opens the part's first step.

import { find, roving, stop, svg } from "./dom.js";
import { goTo, place } from "./walk.js";

const [WIDTH, HIGH, LOW, GAP] = [168, 30, 24, 8];
const [LEFT, RIGHT] = [30, 262]; // x of the two stacks

/** Returns the parts of a layer, lowest first, as [part, text]. */
function partsOf(kinds, norm) {
  const names = { self: "Self-attention", masked: "Masked self-attention", cross: "Cross-attention", ff: "Feed-forward" };
  return kinds.flatMap((kind) => {
    const part = kind === "masked" ? "self" : kind;
    return norm === "post" ? [[part, names[kind]], [`${part}-add`, "Add & normalize"]]
      : [[`${part}-norm`, "Normalize"], [part, names[kind]], [`${part}-add`, "Add"]];
  });
}

export function figureView(page) {
  const box = find("#figure");
  let parts = []; // {side, part, element}
  let layers = []; // {side, layer, element}

  function draw(model) {
    parts = [];
    layers = [];
    const stacks = [["source", LEFT, ["self", "ff"], model.encoder_layers], ["target", RIGHT, ["masked", "cross", "ff"], model.decoder_layers]];
    const drawn = stacks.map(([side, x, kinds, number]) => stack(side, x, partsOf(kinds, model.norm), number, model));
    const height = Math.max(...drawn.map(({ top }) => top)) + 10;
    const groups = drawn.map(({ group }) => { group.setAttribute("transform", `translate(0 ${height})`); return group; });
    const [from, to] = drawn;
    const memory = svg("path", { class: "flow", d: `M${LEFT + WIDTH / 2} ${height - from.exit}V${height - from.exit - 14}H${(LEFT + WIDTH + RIGHT) / 2 - 14}`
      + `V${height - to.cross}H${RIGHT}` });
    const picture = svg("svg", { viewBox: `-5 0 470 ${height}`, role: "group",
      "aria-label": "The Transformer, Figure 1: choose a part to open its step; the arrow keys move between parts" }, memory, ...groups);
    box.replaceChildren(picture);
    const all = [...parts, ...layers].map(({ element }) => element);
    stop(all, all[0]);
    for (const one of all) one.addEventListener("keydown", (event) => keys(event, all));
  }

  function keys(event, all) {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); event.currentTarget.dispatchEvent(new Event("click")); return; }
    const names = { ArrowUp: "ArrowRight", ArrowDown: "ArrowLeft" };
    roving(all, { target: event.currentTarget, key: names[event.key] ?? event.key, preventDefault: () => event.preventDefault() });
  }

  /** Draws one stack upwards from its input. In SVG, y grows downwards, so all y coordinates are negative. */
  function stack(side, x, names, number, model) {
    const group = svg("g", {});
    let up = 8;
    let cross = 0;
    const add = (part, text, height = LOW) => {
      up += height + GAP;
      const made = svg("g", { class: `part ${part.split("-")[0]}`, role: "button", tabindex: "-1", transform: `translate(${x} ${-up})`,
        "aria-label": `${side === "source" ? "Encoder" : "Decoder"}: ${text}`, onclick: () => goTo(page, side, part) },
      svg("rect", { width: WIDTH, height, rx: 5 }), svg("text", { x: WIDTH / 2, y: height / 2 + 4.5 }, text));
      parts.push({ side, part, element: made });
      group.append(made);
      if (part === "cross") cross = up - height / 2;
    };
    group.append(svg("text", { class: "end", x: x + WIDTH / 2, y: -4 }, side === "source" ? "the source" : "the tokens so far"));
    up += 10;
    add("embedding", "Embedding");
    if (model.positions !== "rotary") add("position", "+ Position");
    const bottom = (up += 8);
    for (const [part, text] of names) add(part, text, part.includes("-") ? LOW : HIGH);
    const height = up - bottom + GAP + 4;
    group.prepend(svg("rect", { class: "layer", x: x - 9, y: -up - 8, width: WIDTH + 18, height: height + 4, rx: 9 }));
    numbers(group, side, number, side === "source" ? x - 21 : x + WIDTH + 21, up, height);
    up += 12;
    if (model.norm === "pre") add("final", "Normalize");
    const exit = up;
    if (side === "target") {
      add("logits", "Linear");
      add("softmax", "Softmax");
      up += 20;
      group.append(svg("text", { class: "end", x: x + WIDTH / 2, y: -up + 8 }, "the next token"));
    }
    return { group, top: up, exit, cross };
  }

  /** Draws "6 ×" and the layer numbers, which open the layers. */
  function numbers(group, side, number, x, up, height) {
    const each = Math.min(20, (height - 14) / number);
    group.append(svg("text", { class: "end", x, y: -up + 2 }, `${number} ×`));
    for (let layer = 0; layer < number; layer++) {
      const made = svg("g", { class: "number", role: "button", tabindex: "-1", transform: `translate(${x - 9} ${-up + height - 6 - (layer + 1) * each})`,
        "aria-label": `${side === "source" ? "Encoder" : "Decoder"}: layer ${layer + 1}`, onclick: () => goTo(page, side, null, layer) },
      svg("rect", { width: 18, height: each - 2, rx: 3 }), svg("text", { x: 9, y: each / 2 + 3 }, `${layer + 1}`));
      layers.push({ side, layer, element: made });
      group.append(made);
    }
  }

  function mark(state) {
    const { walk, about } = state;
    const all = [...parts, ...layers].map(({ element }) => element);
    const part = walk.step.replace(/^(self|cross|ff)-(?!add|norm).*/, "$1").replace(about.model.norm === "post" ? /-norm$/ : /^$/, "-add");
    const shown = { token: "embedding", scale: "embedding", sum: "position", likeliest: "softmax", smoothing: "softmax" }[part] ?? part;
    for (const one of parts) current(one.element, one.side === walk.side && one.part === shown, all);
    const { layer } = place(state);
    for (const one of layers) current(one.element, one.side === walk.side && one.layer === layer);
  }

  function current(one, is, all) {
    one.classList.toggle("current", is);
    one.setAttribute("aria-current", is ? "step" : "false");
    if (is && all && !box.contains(document.activeElement)) stop(all, one);
  }

  page.on((state, changed) => {
    if (state.about && changed("about")) draw(state.about.model);
    if (state.about && changed("about", "walk", "view")) mark(state);
  });
}
