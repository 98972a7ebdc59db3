// Positions of words and tokens in texts. Indices count UTF-16 code units.

/** Returns a function that converts the server's ranges, in code points, to UTF-16 code units. */
export function ranges(text) {
  const at = [];
  let index = 0;
  for (const character of text) {
    at.push(index);
    index += character.length;
  }
  at.push(index);
  return ([begin, end]) => [at[Math.min(begin, at.length - 1)], at[Math.min(end, at.length - 1)]];
}

const segmenters = new Map();
function segments(text, granularity) {
  if (!segmenters.has(granularity)) segmenters.set(granularity, new Intl.Segmenter(undefined, { granularity }));
  return [...segmenters.get(granularity).segment(text)];
}

/** Returns the words and punctuation marks of a text: [{begin, end}]. */
export function units(text) {
  return segments(text, "word").filter(({ segment }) => segment.trim())
    .map(({ segment, index }) => ({ begin: index, end: index + segment.length }));
}

const UNSEEN = /^[\s\p{Cc}\p{Cf}]*$/u;
const graphemes = (text) => segments(text, "grapheme").filter(({ segment }) => !UNSEEN.test(segment))
  .map(({ segment, index }) => ({ begin: index, end: index + segment.length }));

/** Returns the range of each unit's tokens as [begin, end), or null if the range is unknown. `side.text` may be normalized. */
export function tokensOf(found, text, side) {
  const spans = tokenSpans(side.tokens);
  const place = text === side.text ? (unit) => unit : between(text, side.text);
  return found.map((unit) => {
    const there = place(unit);
    if (!there) return null;
    const begin = spans.findIndex((span) => span.end > there.begin);
    let end = begin;
    while (end < spans.length && spans[end].begin < there.end) end++;
    return begin >= 0 && end > begin ? [begin, end] : null;
  });
}

/** Returns the span of each token; all bytes of a character have the span of its last byte. */
function tokenSpans(tokens) {
  const spans = [];
  let at = 0;
  let waiting = 0;
  for (const { text } of tokens) {
    const span = { begin: at + (text.length - text.trimStart().length), end: at += text.length };
    spans.push(span);
    if (!text) waiting++;
    else for (; waiting; waiting--) spans[spans.length - 1 - waiting] = span;
  }
  return spans;
}

/** Returns a function that converts ranges in `from` to ranges in `to`, which must have the same visible characters. */
function between(from, to) {
  const [ours, theirs] = [graphemes(from), graphemes(to)];
  if (ours.length !== theirs.length) return () => null;
  return ({ begin, end }) => {
    const first = ours.findIndex((each) => each.end > begin);
    const last = ours.findLastIndex((each) => each.begin < end);
    return first >= 0 && last >= first ? { begin: theirs[first].begin, end: theirs[last].end } : null;
  };
}

/** Returns a readable form of a piece, for example two hexadecimal digits for a byte. */
export function shown(piece) {
  const byte = /^<0x([0-9A-F]{2})>$/.exec(piece);
  return byte ? byte[1] : piece === "</s>" ? "end" : piece === "<s>" ? "start" : piece;
}

/** Returns a readable form of a piece that follows a text: the beginning of a word, or “…” and its continuation. */
export const following = (piece) => (piece === "</s>" ? "end of the sentence"
  : piece.startsWith("▁") ? piece.slice(1) || "a space" : shown(piece) === piece && /^\p{L}/u.test(piece) ? `…${piece}`
    : /^<0x/.test(piece) ? `byte ${shown(piece)}` : piece);

export const isByte = (token) => token.bytes.length === 1 && /^<0x[0-9A-F]{2}>$/.test(token.piece);
export const hex = (bytes) => bytes.map((byte) => byte.toString(16).padStart(2, "0").toUpperCase()).join(" ");

const ENDS = /[.!?…。！？]["'”’»)\]]*\s*$/u;
export const isFinished = (sentence) => ENDS.test(sentence);

/** Parses the part of an address after "#" to {text, choices: [[index of the sentence, {prefix, ends}]], step}, or null if it contains no text. */
export function fromFragment(fragment) {
  const fields = new Map();
  const choices = [];
  try {
    for (const field of fragment.replace(/^#/, "").split("&")) {
      const at = field.indexOf("=");
      const [name, value] = [field.slice(0, at), decodeURIComponent(field.slice(at + 1))];
      const chosen = name === "choice" && /^(\d+)([:!])(.*)$/s.exec(value);
      if (chosen) choices.push([Number(chosen[1]) - 1, { prefix: chosen[3], ends: chosen[2] === "!" }]);
      else fields.set(name, value);
    }
  } catch {
    return null; // not UTF-8
  }
  return fields.has("text") ? { text: fields.get("text"), choices, step: fields.get("step") ?? "" } : null;
}

export function toFragment({ text, sentences, step }) {
  if (!text) return "";
  const choices = sentences.flatMap(({ choice }, n) => (choice
    ? [`&choice=${encodeURIComponent(`${n + 1}${choice.ends ? "!" : ":"}${choice.prefix}`)}`] : []));
  return `#text=${encodeURIComponent(text)}${choices.join("")}${step ? `&step=${encodeURIComponent(step)}` : ""}`;
}
