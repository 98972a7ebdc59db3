// The tokens of both sentences: pieces, bytes and probabilities.

import { asTable, decimal, element, find, percent, roving, stop } from "./dom.js";
import { across } from "./looking.js";
import { looked } from "./store.js";
import { hex, isByte, shown } from "./text.js";

const SURE = 0.1; // nats; tokens with a smaller negative log-probability have the thinnest line
const LINE = 6; // px; thickness of the line of a token with a probability of 5% or less

export function tokensView(page, look) {
  const box = find("#tokens");
  let drawn = { source: [], target: [] };
  let detail = null;

  function draw(state, seen) {
    detail = element("p", { class: "says", id: "token-says" });
    const rows = ["source", "target"].map((side) => {
      drawn[side] = seen[side].tokens.map((token, index) => chip(state.chosen, side, token, index));
      stop(drawn[side], drawn[side][0]);
      const name = side === "source" ? "Read" : "Written";
      const id = `tokens-${side}`;
      return element("div", { class: "row" }, element("h4", { id }, name, " ",
        element("small", {}, `${seen[side].tokens.length} tokens`)),
      element("div", { class: "chips", role: "group", "aria-labelledby": id }, ...drawn[side]));
    });
    box.replaceChildren(...rows, detail, table(seen));
  }

  function chip(sentence, side, token, index) {
    const range = { sentence, side, begin: index, end: index + 1 };
    const choose = () => look.set("token", range);
    const surprise = -(token.log_probability ?? 0);
    const made = element("button", {
      type: "button", class: isByte(token) ? "chip byte" : "chip", tabindex: "-1",
      "aria-label": label(token),
      onpointerenter: () => look.set("pointed", range), onpointerleave: look.leave,
      onfocus: () => { stop(drawn[side], made); choose(); }, onclick: choose,
      onkeydown: (event) => crossing(event, side),
    }, shown(token.piece));
    if (side === "target") made.style.setProperty("--line", `${surprise < SURE ? 1 : 1 + Math.min(1, surprise / 3) * (LINE - 1)}px`);
    return made;
  }

  /** Moves the focus left and right along a row, and up and down between the two rows. */
  function crossing(event, side) {
    const other = { ArrowDown: "target", ArrowUp: "source" }[event.key];
    if (!other) return roving(drawn[side], event);
    if (other === side) return undefined;
    event.preventDefault();
    return drawn[other][Math.min(drawn[side].indexOf(event.target), drawn[other].length - 1)].focus();
  }

  function shade(state, seen) {
    const found = across(state);
    const here = found?.look.sentence === state.chosen ? found : null;
    for (const side of ["source", "target"]) {
      drawn[side].forEach((one, index) => {
        const marked = here?.look.side === side && here.look.begin <= index && index < here.look.end;
        one.classList.toggle("marked", Boolean(marked));
        one.style.setProperty("--weight", here?.other === side ? here.values[index].toFixed(3) : 0);
      });
    }
    const at = looked(state);
    detail.textContent = at?.sentence === state.chosen ? describe(seen, at) : "Choose a token.";
  }

  page.on((state, _, before) => {
    const seen = state.inspected.get(state.chosen);
    if (!seen) return;
    if (seen !== before.inspected.get(before.chosen) || !detail) draw(state, seen);
    shade(state, seen);
  });
}

function label(token) {
  const piece = token.piece === "</s>" ? "end of the sentence" : isByte(token) ? `byte ${hex(token.bytes)}`
    : token.piece.replace("▁", "");
  return token.log_probability === undefined ? piece : `${piece}, probability ${percent(Math.exp(token.log_probability))}`;
}

/** Describes the selected tokens. */
function describe(seen, { side, begin, end }) {
  return seen[side].tokens.slice(begin, end).map((token, index) => {
    const bytes = token.bytes.length ? `, ${token.bytes.length === 1 ? "byte" : "bytes"} ${hex(token.bytes)}` : "";
    const part = isByte(token) ? `, part of “${character(seen[side].tokens, begin + index)}”` : "";
    const p = token.log_probability;
    const sure = p === undefined ? "" : `, probability ${percent(Math.exp(p))}, log ${decimal(p)}`;
    return `${token.piece === "</s>" ? "EOS (end of sentence)" : isByte(token) ? "a byte" : `“${token.piece}”`}${bytes}${part}${sure}`;
  }).join(" · ");
}

/** Returns the character to which a byte belongs: the text that the character's last byte adds. */
const character = (tokens, index) => tokens.slice(index).find((token) => token.text)?.text ?? "?";

function table(seen) {
  const rows = () => ["source", "target"].flatMap((side) => seen[side].tokens.map((token, index) => [
    side === "source" ? "read" : "written", String(index), String(token.id), token.piece, hex(token.bytes), token.text,
    token.log_probability === undefined ? "" : percent(Math.exp(token.log_probability))]));
  return asTable("Tokens of both sentences", ["side", "position", "id", "piece", "bytes (UTF-8)", "adds to the text", "probability"], rows);
}
