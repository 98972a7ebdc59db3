// First sight: what the model is, a translated example, and more of them.

import { button, element, find } from "./dom.js";

const EXERCISES = {
  alpha: ["Another α, another winner", "Under Beam search, move α to 0 and then to 2: another translation comes first."],
  beam: ["A wider beam finds another", "Under Beam search, set the beam to 1 and then to 4: greedy search ends with another translation."],
  bytes: ["A word spelt in bytes", "Under Tokens, look at the bytes: the vocabulary has no piece for these characters, so the model copies them byte by byte."],
  order: ["Another word order", "Under Attention, choose cross-attention: the path through the picture is no diagonal."],
  ambiguous: ["An unsure word", "Click the word under which the line is heaviest: the model gave another word almost the same probability."],
};

/** Fills the line about the model and its examples; opens with the model's own, if there is no text yet. */
export function firstSight(page, { type, show }) {
  const { about, text } = page.get();
  find("#model").replaceChildren(...sentences(about));
  const hint = find("#exercise");
  const exercise = (kind, example) => {
    type(example, [], 0);
    hint.textContent = EXERCISES[kind]?.[1] ?? "";
  };
  find("#examples").replaceChildren(...about.examples.filter(({ kind }) => kind in EXERCISES).map(({ kind, text: example }) =>
    button(EXERCISES[kind][0], () => exercise(kind, example))));
  find("#examples").hidden = !about.examples.length;
  if (about.opening && !text && !find("#source").value) show(about.opening);
}

function sentences({ name, source, target, parameters, trained_on: trained, bleu, demo }) {
  const size = parameters && ` with ${parameters.toLocaleString("en")} parameters`;
  const parts = [element("b", {}, name), ` translates ${source.name} to ${target.name}${size || ""}`,
    trained ? `, trained on ${trained}. ` : ". "];
  if (bleu) {
    parts.push(element("abbr", { title: bleu.signature }, `BLEU ${bleu.score.toFixed(1)}`), ` on its ${bleu.on}`,
      bleu.signature ? element("span", { class: "signature" }, ` (${bleu.signature.replaceAll("|", "|\u200b")})`) : "", ". "); // lines may break there
  }
  if (demo) parts.push(element("strong", {}, "It knows only sentences like its examples."));
  return parts;
}
