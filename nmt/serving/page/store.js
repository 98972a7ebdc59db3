// The state of the page. `set` changes the state and calls each view with the new state, a function that returns whether
// one of the given fields has changed, and the previous state.

import { FIRST } from "./attention.js";

export function store(state) {
  const first = state;
  const listeners = [];
  const notify = (listener, now, before) => listener(now, (...keys) => keys.some((key) => now[key] !== before[key]), before);
  return {
    get: () => state,
    on(listener) {
      listeners.push(listener);
      if (state !== first) notify(listener, state, first); // the listener was added after the first change
    },
    set(changes) {
      const before = state;
      state = { ...state, ...changes };
      for (const listener of listeners) notify(listener, state, before);
    },
  };
}

export const empty = {
  text: "", // the source text
  sentences: [], // {begin, end: in `text`; source, target; gap: text before it; choice; doubts}
  choices: new Map(), // maps a source sentence to {prefix, ends}: the chosen prefix of its translation, and whether the translation ends there
  limit: 20_000, // maximum number of characters per request
  microscope: null, // whether the server provides attention; null until this is known
  stale: false, // whether `sentences` belong to an older text
  about: null, // answer of /api/model
  guessing: false, // whether the translation must be hidden
  chosen: 0, // the sentence that the microscope shows
  inspected: new Map(), // sentence -> answer of /api/inspect
  token: null, // {sentence, side, begin, end}: chosen tokens
  pointed: null, // tokens under the pointer, in the same form as `token`
  view: FIRST, // the open attention; `head` is null for the mean of all heads
  walk: { step: "token", side: "target", index: null }, // the open step and its token; `index` is null for a token near the middle
};

/** Returns the selected tokens: the tokens under the pointer if there are any, otherwise the chosen tokens. */
export const looked = (state) => state.pointed || state.token;

export const same = (a, b) => a === b || (a && b && a.sentence === b.sentence && a.side === b.side
  && a.begin === b.begin && a.end === b.end);

// The kind of attention that each step shows, by side.
export const KINDS = { source: { self: "encoder" }, target: { self: "decoder", cross: "cross" } };

/** Returns the open step in the form that links contain, or "" for the step with which the page begins. */
export function stepOf({ walk, view }) {
  if (walk.step === "token" && walk.index === null && view.layer < 0) return "";
  const number = (value) => (value === null || value < 0 ? "" : value + 1);
  return [walk.side, number(walk.index), number(view.layer), number(view.head), walk.step].join(".");
}

/** Returns the view, with a layer and a head that the model has. `about` is null until the model is known. */
export function inModel(view, about) {
  if (!about) return view;
  const { encoder_layers: encoder, decoder_layers: decoder, heads } = about.model;
  const layers = view.kind === "encoder" ? encoder : decoder;
  if (view.layer < layers && view.head < heads) return view;
  return { ...view, layer: Math.min(view.layer, layers - 1), head: view.head && Math.min(view.head, heads - 1) };
}

/** Returns the changes to the page's state that a step in a link describes. */
export function walkFrom(text, { view, about }) {
  const found = /^(source|target)\.(\d*)\.(\d*)\.(\d*)\.([a-z-]+)$/.exec(text);
  if (!found) return {};
  const [, side, index, layer, head, step] = found;
  const number = (digits, none) => (digits ? Math.max(0, Number(digits) - 1) : none);
  const others = { source: "encoder", target: view.kind === "encoder" ? FIRST.kind : view.kind };
  const kind = KINDS[side][step.split("-")[0]] ?? others[side]; // the layer in the link belongs to this side's stack
  return {
    walk: { step, side, index: number(index, null) },
    view: inModel({ kind, layer: number(layer, -1), head: number(head, null) }, about),
  };
}
