// A game: guess each next token of the model's translation.

import { button, element, find, percent } from "./dom.js";
import { bars } from "./steps.js";
import { following } from "./text.js";

const CHOICES = 4;

export function guessView(page) {
  const box = find("#guess");
  let game = null; // {source, tokens: the tokens of the translation, right: number of correct guesses, at: number of tokens so far}

  function idle() {
    if (page.get().guessing) page.set({ guessing: false });
    game = null;
    box.replaceChildren(button("Play with this sentence", begin),
      element("p", { class: "quiet" }, "Everything that shows the translation is hidden while you play."));
  }

  function begin() {
    const { inspected, chosen } = page.get();
    const seen = inspected.get(chosen);
    if (!seen) return;
    game = { source: seen.source.text, tokens: seen.target.tokens, right: 0, at: 0 };
    page.set({ guessing: true, token: null, pointed: null });
    ask();
  }

  /** Returns the likely tokens at the current position and the model's token, most likely first. */
  function likely() {
    const { piece, likeliest, log_probability: log } = game.tokens[game.at];
    const others = likeliest.filter((each) => each.piece !== piece);
    return [{ piece, probability: Math.exp(log) }, ...others].sort((a, b) => b.probability - a.probability);
  }

  function ask() {
    const { piece } = game.tokens[game.at];
    const all = likely();
    const offered = [all.find((each) => each.piece === piece), ...all.filter((each) => each.piece !== piece)]
      .slice(0, CHOICES).sort((a, b) => (a.piece < b.piece ? -1 : 1)); // alphabetical order hides the ranks
    const buttons = offered.map((each) => button(following(each.piece), () => reveal(all, each), { class: "guess" }));
    show(buttons[0], element("p", { id: "question" }, "What comes next?"),
      element("div", { class: "choices", role: "group", "aria-labelledby": "question" }, ...buttons));
  }

  function reveal(all, guess) {
    const { piece } = game.tokens[game.at];
    const right = guess.piece === piece;
    game.right += right;
    game.at++;
    const rows = all.slice(0, 5).map((each) => (
      { label: following(each.piece), value: each.probability, text: percent(each.probability), mine: each === guess }));
    const says = right ? `Yes: “${following(piece)}”.`
      : `The model wrote “${following(piece)}”. It gave your choice a probability of ${percent(guess.probability)}.`;
    const on = game.at < game.tokens.length ? button("Next token", ask) : button("To the end", over);
    show(on, element("p", { role: "status", class: right ? "right" : null }, says),
      bars(rows, 1, { "aria-label": "The model's most likely tokens" }), element("div", { class: "choices" }, on));
  }

  function over() {
    const { right, at, source } = game;
    const target = written();
    idle();
    box.prepend(element("p", { role: "status" }, `You and the model agreed on ${right} of ${at} tokens of `,
      element("q", {}, target), ", its translation of ", element("q", {}, source)));
    box.querySelector("button").focus({ preventScroll: true });
  }

  function show(focused, ...parts) {
    const languages = ["source", "target"].map((side) => ({ lang: find(`#${side}`).lang || null }));
    box.replaceChildren(element("p", { class: "so-far" }, element("q", { ...languages[0], dir: "auto" }, game.source), element("br"),
      element("span", { ...languages[1], dir: "auto" }, `${written()} …`)), ...parts,
    element("p", { class: "quiet" }, `${game.right} of ${game.at} so far. `, button("Stop", idle)));
    focused.focus({ preventScroll: true });
  }

  const written = () => game.tokens.slice(0, game.at).map((token) => token.text).join("");

  page.on((_, changed) => { if (changed("sentences", "chosen")) idle(); });
  idle();
}
