// The state of the page. `set` changes it and notifies the views.

import { FIRST } from "./attention.js";

export function store(state) {
  const listeners = [];
  return {
    get: () => state,
    on: (listener) => listeners.push(listener),
    set(changes) {
      const before = state;
      state = { ...state, ...changes };
      for (const listener of listeners) listener(state, before);
    },
  };
}

export const empty = {
  text: "", // of the source
  sentences: [], // {begin, end: in `text`; source, target; gap: text before it; prefix: forced, or ""}
  limit: 20_000, // maximum characters per request
  microscope: null, // whether the server provides attention; null: not known yet
  stale: false, // whether `sentences` belong to an older text
  chosen: 0, // the sentence that the microscope shows
  inspected: new Map(), // sentence -> answer of /api/inspect
  token: null, // {sentence, side, begin, end}: chosen tokens
  pointed: null, // likewise, under the pointer
  view: FIRST, // the open attention; head null: mean of all heads
};

/** Returns the selected tokens: those under the pointer, otherwise those chosen. */
export const looked = (state) => state.pointed || state.token;

export const same = (a, b) => a === b || (a && b && a.sentence === b.sentence && a.side === b.side
  && a.begin === b.begin && a.end === b.end);
