// The attention of the chosen sentence. Pointing at a row selects the row's token in the text.

import { newest, post } from "./api.js";
import { attentionView, QUERIES } from "./attention.js";
import { element, failure, find } from "./dom.js";
import { looked } from "./store.js";
import { shown } from "./text.js";

const pieces = (side) => side.tokens.map((token) => shown(token.piece));

export function headsView(page, look) {
  const box = find("#attention");
  const failed = element("div");
  const request = newest();
  box.before(failed);
  const range = (q) => ({ sentence: page.get().chosen, side: QUERIES[page.get().view.kind], begin: q, end: q + 1 });
  const view = attentionView(box, {
    kinds: false, // the kind is chosen in the figure
    open: (next) => page.set({ view: next }),
    point: (q) => (q === null ? look.leave() : look.set("pointed", range(q))),
    choose: (q) => look.set("token", range(q)),
  });

  /** Draws the open attention. Kinds other than cross-attention are requested when they are first opened. */
  async function draw() {
    const { sentences, inspected, chosen, view: open } = page.get();
    const seen = inspected.get(chosen);
    if (!seen) return;
    failed.replaceChildren();
    box.classList.toggle("pending", !seen.attention[open.kind]);
    if (seen.attention[open.kind]) {
      view.show({ source: pieces(seen.source), target: pieces(seen.target), read: seen.read.map(shown), attention: seen.attention }, open);
      return;
    }
    const { source: text, target } = sentences[chosen];
    try {
      const found = await request.run((signal) => post("api/inspect", { text, target, kind: open.kind }, signal));
      if (!found) return;
      Object.assign(seen.attention, found.attention);
      draw();
    } catch (error) {
      failed.replaceChildren(failure(error, draw));
    }
  }

  page.on((state, changed, before) => {
    const seen = state.inspected.get(state.chosen);
    if (!seen) return;
    if (seen !== before.inspected.get(before.chosen) || changed("view")) draw();
    const at = looked(state);
    const on = (side, index) => at?.sentence === state.chosen && at.side === side && at.begin <= index && index < at.end;
    view.mark((index) => on(QUERIES[state.view.kind], index),
      (index) => (state.view.kind === "decoder" ? index > 0 && on("target", index - 1) : on("source", index)));
  });
}
