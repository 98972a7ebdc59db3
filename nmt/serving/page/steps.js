// The steps of the computation for one token. A step has an explanation, the paper's equation, pictures, and a table of the numbers.

import { decimal, element, percent } from "./dom.js";
import { following, shown } from "./text.js";

const WAVES = 32; // number of positions in the picture of the sinusoids
const DIGITS = 4;

const number = (value) => decimal(value, DIGITS);
const norm = (values) => Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));

/** Returns the steps for an answer of /api/steps. `of` contains the side, token, layer and head, the model's settings and the sentence's tokens. */
export function stepsOf(found, of) {
  const isPost = of.model.norm === "post";
  const kinds = of.side === "target" ? ["self", "cross"] : ["self"];
  const wrapped = (part, inner) => {
    const normalize = normalizing(part, found[part === "ff" ? "feed_forward" : part], isPost);
    const add = adding(part, found[part === "ff" ? "feed_forward" : part]);
    return isPost ? [...inner, add, normalize] : [normalize, ...inner, add];
  };
  return [
    ...embedding(found.embedding, of),
    ...kinds.flatMap((kind) => wrapped(kind, attention(kind, found[kind], of, isPost))),
    ...wrapped("ff", [feedForward(found.feed_forward, of)]),
    ...(isPost ? [] : [final(found.hidden, of)]),
    ...(of.side === "target" ? output(found.output, of) : []),
  ];
}

function embedding({ id, piece, row, scaled, position, sum }, { side, token, model, tokens }) {
  const name = shown(piece);
  const d = model.d_model;
  const isWave = model.positions === "sinusoidal";
  const reads = side === "source" ? `The encoder reads “${name}”`
    : `To write “${shown(tokens.target.tokens[token].piece)}”, the decoder reads the preceding token, “${name}”`;
  return [
    step("token", "A row of the embedding matrix", `${reads}. Its id is ${id}, so its embedding is row ${id} of a matrix with ${model.vocabulary_size.toLocaleString("en")} rows and ${d} columns.`,
      `x = E[${id}]`, "3.4", () => [strip("E[id]", row)], vectors({ "E[id]": row })),
    step("scale", "Multiplied by the square root of d_model", `The row is multiplied by √${d} = ${decimal(Math.sqrt(d), 3)}, so its norm grows from ${decimal(norm(row), 2)} to ${decimal(norm(scaled), 2)}.${norm(row) < norm(position) ? ` Without this factor, the embedding would be small compared with the encoding of the position (norm ${decimal(norm(position), 2)}), which is added in step 4.` : ""}`,
      `x · √d_model = x · √${d}`, "3.4", () => [strip("E[id]", row, largest(scaled)), strip("scaled", scaled)], vectors({ "E[id]": row, scaled })),
    step("position", isWave ? "The encoding of its position" : "A learned encoding of its position",
      isWave ? `Attention alone ignores the order of the tokens, so each position, counted from 0, has its own vector. The vector of position ${token} consists of sines and cosines whose wavelengths grow from left to right.`
        : `Attention alone ignores the order of the tokens, so each position, counted from 0, has its own learned vector. This is the vector of position ${token}.`,
      isWave ? "PE(pos, 2i) = sin(pos / 10000^(2i/d_model))\nPE(pos, 2i+1) = cos(pos / 10000^(2i/d_model))" : "PE(pos) = a row of a learned table",
      "3.5", () => [strip(`position ${token}`, position, isWave ? 1 : undefined), ...(isWave ? [waves(token, d)] : [])],
      vectors({ ...(isWave && around(token, d)), [`position ${token}`]: position })),
    step("sum", "Embedding plus position", `The sum of both vectors is the input of layer 1. Adding the position encoding, whose norm is ${decimal(norm(position), 2)}, changes the norm from ${decimal(norm(scaled), 2)} to ${decimal(norm(sum), 2)}. Norms do not simply add, because the two vectors point in different directions.`,
      "x = E[id] · √d_model + PE(pos)", "3.5", () => [strip("scaled", scaled, largest(sum)), strip("position", position, largest(sum)), strip("sum", sum)],
      vectors({ scaled, position, sum })),
  ];
}

function attention(kind, one, { side, layer, head, model, tokens }, isPost) {
  const keys = kind === "cross" || side === "source" ? tokens.source.tokens.map(({ piece }) => shown(piece)) : tokens.read.map(shown);
  const [k, root] = [model.d_k, Math.sqrt(model.d_k)];
  const best = one.weights.indexOf(Math.max(...one.weights));
  const hidden = one.allowed.filter((each) => !each).length;
  const x = isPost ? one.before : one.normalized;
  const given = !isPost || kind === "cross" ? "the output of the previous layer normalization" : layer ? `the output of layer ${layer}` : "the sum of embedding and position";
  const from = kind === "cross" ? "the encoder's output" : isPost ? "this layer's input" : "the normalized input of this layer";
  const learned = `a learned matrix of ${model.d_model} × ${k} numbers`;
  const weight = (i, text = number) => (one.allowed[i] ? text(one.weights[i]) : "masked");
  const exponentials = one.scaled.map((score, i) => (one.allowed[i] ? Math.exp(score - one.scaled[best]) : 0));
  const exponential = `exp(scaled − ${number(one.scaled[best])})`.replace("− −", "+ ");
  const total = exponentials.reduce((sum, each) => sum + each, 0);
  const rows = (...columns) => () => keys.map((key, i) => [key, ...columns.map((column) => number(column[i]))]);
  const chart = (values, text = number) => bars(keys.map((label, i) => ({ label, value: values[i], text: text(values[i]) })));
  const table = (name, values) => ({ heads: ["key", name], rows: rows(values) });
  const why = side === "target" ? "a token must not attend to later tokens, which the model has to predict. The page computes the whole finished translation at once, as in training"
    : "in this model a token can attend only to nearby tokens";
  return [
    step(`${kind}-query`, `The query of ${NAMES[kind]}`, `Head ${head + 1} of layer ${layer + 1} computes a query of ${k} numbers${kind === "cross" ? " in the decoder; keys and values come from the encoder's output" : ""}. The query represents what the token looks for. x is ${given} (norm ${decimal(norm(x), 2)}). W_Q is ${learned}, and b_Q is a learned bias, which the paper omits. The page does not show W_Q and b_Q.`,
      "q = x · W_Q + b_Q", "3.2.2", () => [strip("x", x, largest(x, one.query)), strip("q", one.query, largest(x, one.query))], vectors({ x, q: one.query })),
    step(`${kind}-keys`, `The keys of ${NAMES[kind]}`, `Each of the ${keys.length} tokens of ${from} has a key of ${k} numbers, with which the query is compared. W_K is ${learned}.`,
      "K = X · W_K + b_K", "3.2.2", () => [strip("q", one.query, largest(one.query, ...one.keys)), ...keys.map((key, i) => strip(key, one.keys[i], largest(one.query, ...one.keys)))],
      { heads: ["key", ...one.keys[0].map((_, i) => String(i + 1))], rows: () => [["q", ...one.query.map(number)], ...keys.map((key, i) => [key, ...one.keys[i].map(number)])] }),
    step(`${kind}-scores`, "Query times key", "The score of a key is its dot product with the query, which is large if both vectors point in the same direction.",
      "score = q · k", "3.2.1", () => [chart(one.scores)], table("score", one.scores)),
    step(`${kind}-scaled`, "Divided by the square root of d_k", `A score is a sum of ${k} products, so scores grow with d_k. The scores are divided by √${k} = ${decimal(root, 3)}; otherwise the scores could be so large that the gradient of the softmax would almost vanish.`,
      `q · Kᵀ / √d_k = q · Kᵀ / √${k}`, "3.2.1", () => [chart(one.scaled)], { heads: ["key", "score", "scaled"], rows: rows(one.scores, one.scaled) }),
    step(`${kind}-mask`, "The mask", hidden ? `${hidden} of the ${keys.length} keys are masked (hatched), because ${why}. The scores of masked keys become −∞, so the weights of these keys are exactly 0.`
      : `No key is masked here: the token can attend to all ${keys.length} keys.`,
    "score = −∞ where attention is not allowed", "3.2.3", () => [bars(keys.map((label, i) => ({ label, value: one.scaled[i], text: one.allowed[i] ? number(one.scaled[i]) : "−∞", masked: !one.allowed[i] })))],
    { heads: ["key", "scaled", "allowed"], rows: () => keys.map((key, i) => [key, number(one.scaled[i]), one.allowed[i] ? "yes" : "no"]) }),
    step(`${kind}-softmax`, "Softmax", `The softmax turns the scores into weights that add up to 1: it divides exp(score) by the sum of exp(score) over all keys. The largest score is subtracted first, so that no number becomes too large; this does not change the weights. The largest weight, ${percent(one.weights[best])}, is the weight of “${keys[best]}”.`,
      "softmax(q · Kᵀ / √d_k)", "3.2.1", () => [bars(keys.map((label, i) => ({ label, value: one.weights[i], text: weight(i, percent), masked: !one.allowed[i] })), 1)],
      { heads: ["key", "scaled", exponential, "weight"], rows: () => [...keys.map((key, i) => [key, number(one.scaled[i]), number(exponentials[i]), weight(i)]), ["sum", "", number(total), number(1)]] }),
    step(`${kind}-values`, "The weighted sum of the values", `Each token ${kind === "cross" ? "of the source " : ""}also has a value of ${model.d_v} numbers, V = X · W_V + b_V. The output of head ${head + 1} is the sum of the values, each multiplied by its weight.`,
      "softmax(q · Kᵀ / √d_k) · V", "3.2.1", () => [...keys.map((key, i) => strip(`${weight(i, percent)} ${key}`, one.values[i], largest(one.values.flat()))),
        strip("sum", one.attended, largest(one.values.flat()))],
      { heads: ["key", "weight", ...one.attended.map((_, i) => String(i + 1))], rows: () => [...keys.map((key, i) => [key, weight(i), ...one.values[i].map(number)]), ["sum", "", ...one.attended.map(number)]] }),
    step(`${kind}-joined`, "The heads joined", `Each of the ${model.heads} heads has its own matrices and can attend to different tokens. The outputs of all heads are concatenated to ${one.joined.length} numbers and multiplied by W_O, a learned matrix of ${one.joined.length} × ${model.d_model} numbers, which the page does not show.`,
      "Concat(head₁, …, head_h) · W_O + b_O", "3.2.2", () => [...Array.from({ length: model.heads }, (_, h) => strip(`head ${h + 1}`, one.joined.slice(h * model.d_v, (h + 1) * model.d_v), largest(one.joined, one.output))),
        strip("output", one.output, largest(one.joined, one.output))], vectors({ "heads joined": one.joined, output: one.output })),
  ];
}

const NAMES = { self: "self-attention", cross: "cross-attention", ff: "the feed-forward network" };

function adding(part, { before, output, sum }) {
  const most = largest(before, output, sum);
  return step(`${part}-add`, "The residual connection", `The input of ${NAMES[part]} (norm ${decimal(norm(before), 2)}) is added to its output (norm ${decimal(norm(output), 2)}), so a sub-layer only has to compute a change to the vector.`,
    "x + Sublayer(x)", "3.1", () => [strip("before", before, most), strip("output", output, most), strip("sum", sum, most)], vectors({ before, output, sum }));
}

function normalizing(part, { before, sum, standardized, gain, bias, normalized, mean, deviation }, isPost) {
  const given = isPost ? sum : before;
  const most = largest(given, standardized, normalized);
  return step(`${part}-norm`, "Layer normalization", `The vector's mean, ${decimal(mean, 3)}, is subtracted, and the result is divided by the standard deviation, ${decimal(deviation, 3)} (a tiny constant prevents division by 0). Then each number is multiplied by its learned gain, and its learned bias is added. The norm changes from ${decimal(norm(given), 2)} to ${decimal(norm(normalized), 2)}.`,
    isPost ? "LayerNorm(x + Sublayer(x))" : "LayerNorm(x), before the sub-layer", "3.1",
    () => [strip("given", given, most), strip("standardized", standardized, most), strip("normalized", normalized, most)],
    vectors({ given, standardized, gain, bias, normalized }));
}

function feedForward({ units, active, strongest, output }, { model }) {
  return step("ff-units", "The feed-forward network", `This sub-layer treats each token separately. W₁ and W₂ are learned matrices of ${model.d_model} × ${model.d_ff.toLocaleString("en")} and ${model.d_ff.toLocaleString("en")} × ${model.d_model} numbers, which the page does not show. Of the ${model.d_ff.toLocaleString("en")} units, ${active.toLocaleString("en")} are active (above 0); the strongest is unit ${strongest[0] + 1}.`,
    "max(0, x · W₁ + b₁) · W₂ + b₂", "3.3", () => [strip(`${units.length} units`, units, largest(units, output)), bars(strongest.map((unit) => ({ label: `unit ${unit + 1}`, value: units[unit], text: number(units[unit]) }))), strip("output", output, largest(units, output))],
    vectors({ unit: units, output }));
}

const final = (hidden, { side, model }) => step("final", "The last normalization", `After the last layer, layer ${side === "source" ? model.encoder_layers : model.decoder_layers}, a pre-norm model normalizes once more.`,
  "LayerNorm(x)", "3.1", () => [strip("normalized", hidden)], vectors({ normalized: hidden }));

function output({ piece, logit, log_probability: log, likeliest, log_sum: logSum, smoothing, vocabulary, target }, { layer, model }) {
  const [best] = likeliest;
  const names = likeliest.map((each) => following(each.piece));
  const size = vocabulary.toLocaleString("en");
  const total = number(Math.exp(logSum - best.logit));
  const exponential = `exp(logit − ${number(best.logit)})`.replace("− −", "+ ");
  const steps = [
    step("logits", "Logits", `${layer + 1 < model.decoder_layers ? "The next layers repeat these steps with their own weights. " : ""}After the last layer, layer ${model.decoder_layers}, the vector is multiplied by the embedding of each of the ${size} tokens. Each product is a logit; the logit of “${following(piece)}” is ${number(logit)}.`,
      "logits = x · Eᵀ", "3.4", () => [bars(likeliest.map((each, i) => ({ label: names[i], value: each.logit, text: number(each.logit) })))],
      { heads: ["token", "logit"], rows: () => likeliest.map((each, i) => [names[i], number(each.logit)]) }),
    step("likeliest", "The ten most likely tokens", `The softmax turns the logits into probabilities: it divides exp(logit) by the sum of exp(logit) over all ${size} tokens. The table first subtracts the largest logit, which does not change the probabilities. The most likely token is “${names[0]}” with ${percent(best.probability)}${piece === best.piece ? "" : `; “${following(piece)}” has a probability of ${percent(Math.exp(log))}`}.`,
      "p = softmax(logits)", "3.4", () => [bars(likeliest.map((each, i) => ({ label: names[i], value: each.probability, text: percent(each.probability) })), 1)],
      { heads: ["token", "logit", exponential, "probability"], rows: () => [...likeliest.map((each, i) => [names[i], number(each.logit), number(Math.exp(each.logit - best.logit)), number(each.probability)]), [`sum over all ${size} tokens`, "", total, number(1)]] }),
  ];
  if (smoothing) {
    steps.push(step("smoothing", "Label smoothing", `In training, the target probability of the right token is ${percent(target)}, not 100%: label smoothing with ε = ${smoothing} spreads the rest over all V = ${size} tokens. The model can give a token a higher probability than the target, but in training, this makes the loss larger. Here the model's most likely token has a probability of ${percent(best.probability)}.`,
      `(1 − ε) + ε / V = (1 − ${smoothing}) + ${smoothing} / ${vocabulary} = ${number(target)}`, "5.4",
      () => [bars([{ label: "target", value: target, text: percent(target) }, { label: names[0], value: best.probability, text: percent(best.probability) }], 1)],
      { heads: ["distribution", "probability"], rows: () => [["target", number(target)], [names[0], number(best.probability)]] }));
  }
  return steps;
}

function step(id, title, says, equation, section, pictures, { heads, rows }) {
  const anchor = section.split(".").map((each, depth) => "S".repeat(depth + 1) + each).join(".");
  return { id, title, says, equation, section: `§${section}`, anchor, pictures, heads, rows };
}

/** Returns a table with one column per vector. */
function vectors(named) {
  const columns = Object.values(named);
  const length = Math.max(...columns.map((column) => column.length));
  return { heads: ["number", ...Object.keys(named)], rows: () => Array.from({ length }, (_, i) => [String(i + 1), ...columns.map((column) => (i < column.length ? number(column[i]) : ""))]) };
}

const largest = (...all) => Math.max(...all.flat().map(Math.abs), 1e-9);

/** Draws a vector as a strip with one pixel per number: blue above 0, orange below 0, and stronger for larger magnitudes. */
function strip(label, values, most = largest(values)) {
  const canvas = element("canvas", { width: values.length, height: 1, "aria-hidden": "true" });
  paint(canvas, [values], most);
  const ends = `${decimal(Math.min(...values), 2)} to ${decimal(Math.max(...values), 2)}`;
  return element("div", { class: "strip" }, element("span", { class: "label", dir: "auto" }, label), canvas, element("span", { class: "ends" }, ends));
}

const firstWave = (token) => Math.max(0, token - WAVES + 1);

/** Returns the sinusoidal encodings of several positions, including the token's position, by name. */
function around(token, d) {
  const wave = (position) => Array.from({ length: d }, (_, i) => {
    const angle = position / 10000 ** ((i - (i % 2)) / d);
    return i % 2 ? Math.cos(angle) : Math.sin(angle);
  });
  return Object.fromEntries(Array.from({ length: WAVES }, (_, row) => [`position ${firstWave(token) + row}`, wave(firstWave(token) + row)]));
}

/** Draws the encodings of several positions, one per row, with a frame around the token's row. */
function waves(token, d) {
  const first = firstWave(token);
  const canvas = element("canvas", { width: d, height: WAVES, "aria-hidden": "true" });
  paint(canvas, Object.values(around(token, d)), 1);
  const frame = element("span", { class: "frame" });
  frame.style.setProperty("--row", (token - first) / WAVES);
  frame.style.setProperty("--height", 1 / WAVES);
  return element("div", { class: "strip" }, element("span", { class: "label" }, `positions ${first} to ${first + WAVES - 1}`),
    element("div", { class: "waves" }, canvas, frame), element("span", { class: "ends" }, "−1 to 1"));
}

function paint(canvas, rows, most) {
  const style = getComputedStyle(document.documentElement);
  const [above, below] = ["--accent", "--warm"].map((name) => [1, 3, 5].map((at) => parseInt(style.getPropertyValue(name).trim().slice(at, at + 2), 16)));
  const context = canvas.getContext("2d");
  const picture = context.createImageData(canvas.width, canvas.height);
  rows.flat().forEach((value, at) => picture.data.set([...(value < 0 ? below : above), 255 * Math.min(1, Math.abs(value) / most) ** 0.7], 4 * at));
  context.putImageData(picture, 0, 0);
}

/** Draws numbers as bars. Masked numbers are hatched, numbers with `mine` are highlighted, and a full bar stands for `most`. */
export function bars(rows, most = largest(rows.map(({ value }) => value)), attributes = {}) {
  return element("ul", { class: "bars", ...attributes }, ...rows.map(({ label, value, text, masked, mine }) => {
    const bar = element("span", { class: masked ? "share hatched" : value < 0 ? "share below" : "share" });
    bar.style.setProperty("--share", masked ? 0 : Math.min(1, Math.abs(value) / most));
    return element("li", { class: mine && "mine" }, element("span", { class: "piece", dir: "auto" }, label), bar, element("span", { class: "number" }, text));
  }));
}
