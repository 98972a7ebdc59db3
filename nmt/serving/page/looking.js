// The selected tokens and their attention to the other side.

import { newest, post } from "./api.js";
import { weightsOf } from "./attention.js";
import { looked, same } from "./store.js";
import { tokensOf, units } from "./text.js";

const KEPT = 24; // maximum number of cached inspections

export function looking(page) {
  const cache = new Map();
  const chosen = newest();
  const other = newest();

  async function inspect(index, request = other) {
    const { sentences, inspected, microscope } = page.get();
    if (!microscope || !sentences[index]) return undefined;
    const { source, target } = sentences[index];
    if (inspected.has(index)) return inspected.get(index);
    const key = JSON.stringify([source, target]);
    const seen = cache.get(key) ?? await request.run((signal) => post("api/inspect", { text: source, target, kind: "cross" }, signal));
    if (!seen || page.get().sentences !== sentences) return undefined;
    cache.delete(key);
    cache.set(key, seen);
    if (cache.size > KEPT) cache.delete(cache.keys().next().value);
    page.set({ inspected: new Map(page.get().inspected).set(index, seen) });
    return seen;
  }

  /** Chooses the sentence that the microscope shows. */
  async function choose(index) {
    if (page.get().chosen !== index || !page.get().inspected.has(index)) page.set({ chosen: index, blind: null });
    try {
      await inspect(index, chosen);
      page.set({ blind: null });
    } catch (error) {
      page.set({ blind: error.message });
    }
  }

  page.on((state, changed) => { if (state.microscope && changed("microscope")) choose(state.chosen); });

  let wanted = null;
  /** Selects a unit of the text. `kind`: "pointed" while the pointer is on the unit, or "token" after a click. */
  async function look(kind, sentence, side, unit) {
    const mine = wanted = {};
    if (kind === "token") choose(sentence);
    try {
      await inspect(sentence, kind === "token" ? chosen : other);
    } catch {
      return; // `choose` shows the error; for pointing, no message is necessary
    }
    const range = placed(page.get(), sentence, side)?.[unit]?.tokens;
    if (wanted !== mine || page.get().stale || !range) return;
    set(kind, { sentence, side, begin: range[0], end: range[1] });
  }

  function set(kind, value) {
    if (!same(page.get()[kind], value)) page.set({ [kind]: value });
  }

  function leave() {
    wanted = null;
    set("pointed", null);
  }

  return { choose, look, leave, set };
}

const places = new WeakMap();
/** Returns the units of one side of a sentence with their tokens, or null until the sentence is inspected. */
export function placed(state, index, side) {
  const seen = state.inspected.get(index);
  if (!seen) return null;
  const text = state.sentences[index][side];
  const known = places.get(seen) ?? places.set(seen, {}).get(seen);
  if (known[side]?.text !== text) {
    const found = units(text);
    const tokens = tokensOf(found, text, seen[side]);
    known[side] = { text, units: found.map((unit, i) => ({ ...unit, tokens: tokens[i] })) };
  }
  return known[side].units;
}

/** Returns the layer and head whose cross-attention tints the other side: the open layer and head, or the mean of the last layer. */
function crossView(state, layers) {
  const { kind, layer, head } = state.view;
  return kind === "cross" ? { layer: layer < 0 ? layers - 1 : layer, head } : { layer: layers - 1, head: null };
}

/** Returns the cross-attention between the selected tokens and each token of the other side. */
export function across(state) {
  const look = looked(state);
  const seen = look && state.inspected.get(look.sentence);
  if (!seen) return null;
  const view = crossView(state, seen.attention.cross.length);
  const weights = weightsOf(seen.attention, { kind: "cross", ...view });
  const range = Array.from({ length: look.end - look.begin }, (_, i) => look.begin + i);
  const values = look.side === "target"
    ? weights[0].map((_, key) => range.reduce((sum, query) => sum + weights[query][key], 0) / range.length)
    : weights.map((row) => range.reduce((sum, key) => sum + row[key], 0));
  return { look, view, values, seen, other: look.side === "target" ? "source" : "target" };
}

/** Returns the tint of each unit of a side, 0 to 1, and whether the unit is selected. */
export function tints(state, index, side, found = across(state)) {
  const all = placed(state, index, side) ?? [];
  if (!found || found.look.sentence !== index) return all.map(() => ({}));
  const { look, values, other } = found;
  return all.map(({ tokens }) => {
    if (!tokens) return {};
    const [begin, end] = tokens;
    if (side === look.side) return { marked: begin < look.end && look.begin < end };
    const some = values.slice(begin, end);
    return { weight: side === other && side === "source" ? some.reduce((a, b) => a + b, 0) : Math.max(...some) };
  });
}
