// The start of the page: a description of the model, a translated example, and more examples.

import { button, element, find } from "./dom.js";

const EXERCISES = {
  alpha: ["A different α, a different translation", "Under Beam search, set α to 0 and then to 2: a different translation ranks first."],
  beam: ["A wider beam, another translation", "Under Beam search, set the beam to 1 and then to 4: greedy search gives another translation."],
  bytes: ["A word spelled in bytes", "Under Tokens, look at the bytes: the vocabulary does not contain these characters, so the model copies them byte by byte."],
  order: ["Another word order", "In the section “One token, step by step”, click Cross-attention: under Attention, the large weights are not on the diagonal."],
  ambiguous: ["An uncertain word", "Under Tokens, find the target token with the thickest line, then click its word in the translation: another word is almost as likely."],
};

/** Shows the description of the model and its examples, and the opening sentence if there is no text yet. */
export function firstSight(page, { type, show }) {
  const { about, text } = page.get();
  find("#model").replaceChildren(...sentences(about));
  const hint = find("#exercise");
  const exercise = (kind, example) => {
    type(example, [], 0);
    hint.textContent = EXERCISES[kind][1];
  };
  find("#examples").replaceChildren(...about.examples.map(({ kind, text: example }) => button(EXERCISES[kind][0], () => exercise(kind, example))));
  find("#examples").hidden = !about.examples.length;
  if (about.opening && !text && !find("#source").value) show(about.opening);
}

function sentences({ name, source, target, parameters, trained_on: trained, bleu, demo }) {
  const size = parameters && ` with ${parameters.toLocaleString("en")} parameters`;
  const parts = [element("b", {}, name), ` translates ${source.name} to ${target.name}${size || ""}`,
    trained ? `, trained on ${trained}. ` : ". "];
  if (bleu) {
    parts.push(element("abbr", { title: bleu.signature }, `BLEU ${bleu.score.toFixed(1)}`), ` on its ${bleu.on}`,
      bleu.signature ? element("span", { class: "signature" }, ` (${bleu.signature.replaceAll("|", "|\u200b")})`) : "", ". "); // allows line breaks
  }
  if (demo) parts.push(element("strong", {}, "It can translate only sentences like the examples."));
  return parts;
}
