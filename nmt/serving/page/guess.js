// A challenge: which token comes next? The answer is what the model would write, step by step.

import { newest, post } from "./api.js";
import { button, element, find, percent } from "./dom.js";
import { following } from "./text.js";

const CHOICES = 4;
const LONGEST = 60; // tokens of a game

export function guessView(page) {
  const box = find("#guess");
  const request = newest();
  let game = null; // {source, prefix, right, turns, done}

  function idle() {
    request.stop();
    if (game) document.body.classList.remove("guessing");
    game = null;
    box.replaceChildren(button("Play with this sentence", begin),
      element("p", { class: "quiet" }, "Its translation above is covered while you play."));
  }

  function begin() {
    const { sentences, chosen } = page.get();
    game = { source: sentences[chosen].source, prefix: "", right: 0, turns: 0 };
    document.body.classList.add("guessing");
    next();
  }

  async function next() {
    const mine = game;
    try {
      const body = { text: mine.source, prefix: mine.prefix, k: 10 };
      const answer = await request.run((signal) => post("api/next_tokens", body, signal));
      if (answer && game === mine) ask(answer.tokens);
    } catch (error) {
      if (game === mine) box.replaceChildren(element("p", { class: "blind" }, error.message), button("Try again", next), button("Stop", idle));
    }
  }

  function ask(tokens) {
    if (!tokens.length || game.turns >= LONGEST) return over();
    const offered = tokens.slice(0, CHOICES).sort((a, b) => (a.piece < b.piece ? -1 : 1)); // not by rank
    const buttons = offered.map((token) => button(name(token), () => reveal(tokens, token), { class: "guess" }));
    box.replaceChildren(sentence(), element("p", { id: "question" }, "What comes next?"),
      element("div", { class: "choices", role: "group", "aria-labelledby": "question" }, ...buttons), foot());
    buttons[0].focus({ preventScroll: true });
    return undefined;
  }

  function reveal(tokens, guess) {
    const [best] = tokens;
    const right = guess === best;
    game.turns++;
    game.right += right;
    const isEnd = best.piece === "</s>";
    game.prefix = isEnd ? game.prefix : best.text;
    const rows = tokens.slice(0, 5).map((token) => {
      const bar = element("span", { class: "share" });
      bar.style.setProperty("--share", token.probability);
      return element("li", { class: token === guess ? "mine" : null }, element("span", { class: "piece" }, name(token)), bar,
        element("span", { class: "number" }, percent(token.probability)));
    });
    const says = right ? `Yes: “${name(best)}”.` : `The model writes “${name(best)}”; yours has ${percent(guess.probability)}.`;
    const on = button(isEnd ? "To the end" : "Next token", isEnd ? over : next);
    box.replaceChildren(sentence(), element("p", { role: "status", class: right ? "right" : null }, says),
      element("ol", { class: "bars", "aria-label": "The model's likeliest" }, ...rows), element("div", { class: "choices" }, on), foot());
    on.focus({ preventScroll: true });
  }

  function over() {
    const { right, turns, prefix, source } = game;
    idle();
    box.prepend(element("p", { role: "status" }, `You and the model agreed on ${right} of ${turns} tokens of `,
      element("q", {}, prefix), `, its translation of `, element("q", {}, source), "."));
    box.querySelector("button").focus({ preventScroll: true });
  }

  const name = ({ piece }) => following(piece);
  const sentence = () => element("p", { class: "so-far" }, element("q", { lang: find("#source").lang || null }, game.source),
    element("br"), element("span", { lang: find("#target").lang || null }, game.prefix || "…"), game.prefix ? " …" : "");
  const foot = () => element("p", { class: "quiet" }, `${game.right} of ${game.turns} so far. `, button("Stop", idle));

  page.on((state, before) => {
    if (state.sentences !== before.sentences || state.chosen !== before.chosen) idle();
  });
  idle();
}
