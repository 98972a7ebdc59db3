// The two panes: the source text with highlights behind it, and the words of its translation.

import { element, find, percent, roving, stop } from "./dom.js";
import { across, placed, tints } from "./looking.js";
import { looked } from "./store.js";
import { units } from "./text.js";

const LEAST = 0.02; // smaller attention weights are not shown

/** Returns the element of a sentence, and adds its units to `drawn`. */
function drawSentence(index, state, side, drawn, make) {
  const text = state.sentences[index][side];
  const box = element("span", { class: index === state.chosen ? "sentence chosen" : "sentence" });
  let at = 0;
  units(text).forEach((unit, number) => {
    const one = make(text.slice(unit.begin, unit.end), index, number, unit);
    drawn.push({ sentence: index, number, element: one });
    box.append(text.slice(at, unit.begin), one);
    at = unit.end;
  });
  box.append(text.slice(at));
  return box;
}

function shade(state, side, drawn, boxes) {
  const found = across(state);
  const values = new Map();
  for (const { sentence, number, element: one } of drawn) {
    if (!values.has(sentence)) values.set(sentence, tints(state, sentence, side, found));
    const { marked = false, weight = 0 } = values.get(sentence)[number] ?? {};
    one.classList.toggle("marked", marked);
    one.style.setProperty("--weight", weight < LEAST ? 0 : weight.toFixed(3));
  }
  const here = looked(state)?.sentence ?? state.chosen;
  boxes.forEach((box, index) => box.classList.toggle("chosen", boxes.length > 1 && index === here));
}

const SHADES = ["pointed", "token", "view", "inspected", "chosen"]; // the fields of the state that change the tints

export function sourcePane(page, look, type) {
  const area = find("#source");
  const backdrop = find("#backdrop");
  let drawn = [];
  let boxes = [];
  area.addEventListener("input", () => type(area.value));
  area.addEventListener("pointermove", (event) => {
    const at = under(event);
    if (at) look.look("pointed", at.sentence, "source", at.number);
    else look.leave();
  });
  area.addEventListener("pointerleave", look.leave);
  document.addEventListener("selectionchange", () => {
    const state = page.get();
    if (document.activeElement !== area || state.stale || area.selectionStart !== area.selectionEnd) return;
    const index = sentenceAt(state, area.selectionStart);
    if (index < 0) return;
    const inside = area.selectionStart - state.sentences[index].begin;
    const unit = units(state.sentences[index].source).findIndex(({ begin, end }) => begin <= inside && inside < end);
    if (unit >= 0) look.look("token", index, "source", unit);
    else look.choose(index);
  });

  /** Returns the unit under the pointer, from the backdrop behind the text area. */
  function under({ clientX: x, clientY: y }) {
    return drawn.find(({ element: one }) => [...one.getClientRects()].some((box) =>
      box.left <= x && x <= box.right && box.top <= y && y <= box.bottom));
  }

  function draw(state) {
    drawn = [];
    let at = 0;
    const parts = state.stale ? [] : state.sentences.flatMap((sentence, index) => {
      const gap = state.text.slice(at, sentence.begin);
      at = sentence.end;
      return [gap, drawSentence(index, state, "source", drawn, (text) => element("span", { class: "unit" }, text))];
    });
    boxes = parts.filter((part) => typeof part !== "string");
    backdrop.replaceChildren(...parts, `${state.text.slice(at)} `);
    if (area.value !== state.text) area.value = state.text;
  }

  page.on((state, changed) => {
    const isNew = changed("sentences", "stale", "text");
    if (isNew) draw(state);
    if (isNew || changed(...SHADES)) shade(state, "source", drawn, boxes);
  });
}

/** Returns the index of the last sentence that begins at or before a position in the text. */
const sentenceAt = (state, place) => state.sentences.findLastIndex(({ begin }) => begin <= place);

export function targetPane(page, look, open) {
  const box = find("#target");
  let drawn = [];
  let boxes = [];
  const words = () => drawn.map(({ element: one }) => one);

  function make(text, sentence, number, unit) {
    const act = () => { look.look("token", sentence, "target", number); open(sentence, unit, one); };
    const one = element("span", {
      class: "unit", role: "button", tabindex: "-1", "aria-haspopup": "menu",
      onpointerenter: () => look.look("pointed", sentence, "target", number),
      onpointerleave: look.leave,
      onfocus: () => { stop(words(), one); look.look("token", sentence, "target", number); },
      onclick: act,
      onkeydown: (event) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(); } else roving(words(), event);
      },
    }, text);
    return one;
  }

  /** Draws the sentences and keeps the keyboard focus on the same word. */
  function draw(state) {
    const at = words().indexOf(document.activeElement);
    drawn = [];
    boxes = state.sentences.map((_, index) => drawSentence(index, state, "target", drawn, make));
    box.replaceChildren(...state.sentences.flatMap(({ gap }, index) => [gap, boxes[index]]));
    if (!drawn.length) return;
    const focused = words()[Math.min(Math.max(at, 0), drawn.length - 1)];
    stop(words(), focused);
    if (at >= 0) focused.focus({ preventScroll: true });
  }

  page.on((state, changed) => {
    if (changed("sentences")) draw(state);
    if (changed("sentences", ...SHADES)) shade(state, "target", drawn, boxes);
    box.classList.toggle("stale", state.stale && state.sentences.length > 0);
    box.setAttribute("aria-busy", String(state.stale && !state.problem));
    if (changed("guessing", ...SHADES)) find("#says").textContent = state.guessing ? "" : says(state);
  });
}

/** Describes in words the attention that the tints show. */
function says(state) {
  const found = across(state);
  if (!found) return "";
  const { look, view, values, seen, other } = found;
  const all = placed(state, look.sentence, other);
  const text = state.sentences[look.sentence][other];
  const name = seen[look.side].tokens.slice(look.begin, look.end).map((token) => token.text).join("").trim()
    || seen[look.side].tokens[look.begin].piece;
  const best = tints(state, look.sentence, other, found)
    .map(({ weight = 0 }, i) => [weight, text.slice(all[i].begin, all[i].end)])
    .concat(other === "source" ? [[values.at(-1), "end of the sentence"]] : [])
    .sort((a, b) => b[0] - a[0]).slice(0, 3).filter(([weight]) => weight >= LEAST)
    .map(([weight, word]) => `“${word}” ${percent(weight)}`).join(", ");
  const where = `layer ${view.layer + 1}, ${view.head === null ? "mean of the heads" : `head ${view.head + 1}`}`;
  return look.side === "target"
    ? `To write “${name}”, the model attended to ${best} (cross-attention, ${where}).`
    : `“${name}” received ${best ? `attention from ${best}` : "hardly any attention"} (cross-attention, ${where}).`;
}
