// The attention of the chosen sentence. Pointing at a row also selects its token in the text.

import { attentionView, QUERIES } from "./attention.js";
import { find } from "./dom.js";
import { looked } from "./store.js";
import { shown } from "./text.js";

const pieces = (side) => side.tokens.map((token) => shown(token.piece));

export function headsView(page, look) {
  const range = (q) => ({ sentence: page.get().chosen, side: QUERIES[page.get().view.kind], begin: q, end: q + 1 });
  const view = attentionView(find("#attention"), {
    kinds: false, // the figure offers this choice
    open: (next) => page.set({ view: next }),
    point: (q) => (q === null ? look.leave() : look.set("pointed", range(q))),
    choose: (q) => look.set("token", range(q)),
  });

  page.on((state, before) => {
    const seen = state.inspected.get(state.chosen);
    if (!seen) return;
    if (seen !== before.inspected.get(before.chosen) || state.view !== before.view) {
      const maps = { source: pieces(seen.source), target: pieces(seen.target), read: seen.read.map(shown), attention: seen.attention };
      view.show(maps, state.view);
    }
    const at = looked(state);
    const on = (side, index) => at?.sentence === state.chosen && at.side === side && at.begin <= index && index < at.end;
    view.mark((index) => on(QUERIES[state.view.kind], index),
      (index) => (state.view.kind === "decoder" ? index > 0 && on("target", index - 1) : on("source", index)));
  });
}
