// Scores, paths and texts of hypotheses.

/** Wu et al. (2016), Eq. 14; used in §6.1 of the paper. */
const score = (logProbability, length, alpha) => logProbability / ((5 + length) / 6) ** alpha;

/** Returns the finished hypotheses with their scores for a length penalty of alpha, best first. */
export function ranked(finished, alpha) {
  return finished.map((each) => ({ ...each, score: score(each.log_probability, each.length, alpha) }))
    .sort((a, b) => b.score - a.score);
}

/** Returns the indices of a hypothesis and its ancestors, one per step, first step first. */
export function path(steps, { step, index }) {
  const found = [];
  for (let at = step, place = index; at >= 0; at--) {
    found.unshift(place);
    place = steps[at][place].parent;
  }
  return found;
}

const BYTE = /^<0x([0-9A-F]{2})>$/;
/** Joins pieces, including byte pieces, into text. */
export function spelt(pieces) {
  const bytes = pieces.filter((piece) => piece !== "</s>").flatMap((piece) => {
    const byte = BYTE.exec(piece);
    return byte ? [parseInt(byte[1], 16)] : [...new TextEncoder().encode(piece.replaceAll("▁", " "))];
  });
  return new TextDecoder().decode(new Uint8Array(bytes)).trim();
}
