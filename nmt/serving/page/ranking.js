// What is known of a search, without the page: scores, paths, texts.

/** Wu et al., 2016, Eq. 14; the paper's §6.1. */
const score = (logProbability, length, alpha) => logProbability / ((5 + length) / 6) ** alpha;

/** Finished hypotheses with their scores for an alpha, best first. */
export function ranked(finished, alpha) {
  return finished.map((each) => ({ ...each, score: score(each.log_probability, each.length, alpha) }))
    .sort((a, b) => b.score - a.score);
}

/** Indices of a hypothesis in its steps, from the first to the one that is given. */
export function path(steps, { step, index }) {
  const found = [];
  for (let at = step, place = index; at >= 0; at--) {
    found.unshift(place);
    place = steps[at][place].parent;
  }
  return found;
}

const BYTE = /^<0x([0-9A-F]{2})>$/;
/** The text of pieces, bytes put together. */
export function spelt(pieces) {
  const bytes = pieces.filter((piece) => piece !== "</s>").flatMap((piece) => {
    const byte = BYTE.exec(piece);
    return byte ? [parseInt(byte[1], 16)] : [...new TextEncoder().encode(piece.replaceAll("▁", " "))];
  });
  return new TextDecoder().decode(new Uint8Array(bytes)).trim();
}
