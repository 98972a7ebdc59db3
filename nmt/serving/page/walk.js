// The computation for one token, step by step. The server computes all numbers.

import { newest, onceSeen, post } from "./api.js";
import { asTable, element, failure, find, paper } from "./dom.js";
import { stepsOf } from "./steps.js";
import { KINDS } from "./store.js";
import { shown } from "./text.js";

const PAUSE = 3000; // ms between two steps while playing
const KEPT = 60; // maximum number of cached answers

/** Returns the open layer and head for the side whose token is shown; the first layer and head until the user chooses others. */
export function place({ about, walk, view }) {
  const number = walk.side === "source" ? about.model.encoder_layers : about.model.decoder_layers;
  return { layer: Math.min(Math.max(view.layer, 0), number - 1), head: view.head ?? 0 };
}

/** Returns the token that is shown. Until the user chooses a token, this is a token near the middle that begins a word. */
function tokenOf({ walk, inspected, chosen }) {
  const { tokens } = inspected.get(chosen)[walk.side];
  const middle = Math.floor(tokens.length / 2);
  const begins = tokens.findIndex(({ piece }, i) => i >= middle && piece.startsWith("▁"));
  return Math.min(walk.index ?? (begins < 0 ? middle : begins), tokens.length - 1);
}

/** Returns the open step, or the first step of a layer if the side does not contain the open step. */
const stepOn = (side, step) => (side === "source" && /^(cross|logits|likeliest|smoothing)/.test(step) ? "self-query" : step);

/** Opens a part of the figure. If `part` is null, the step does not change; if `layer` is undefined, the layer does not change. */
export function goTo(page, side, part, layer) {
  const state = page.get();
  const first = { embedding: "token", position: "position", self: "self-query", cross: "cross-query", ff: "ff-units", softmax: "likeliest" };
  const step = part ? first[part] ?? part : stepOn(side, state.walk.step);
  const index = side === state.walk.side ? state.walk.index : other(state, side);
  show(page, { step, side, index }, layer === undefined ? state.view : { ...state.view, layer });
}

/** Returns the token of the other side with the most attention to or from the shown token. */
function other(state, side) {
  const seen = state.inspected.get(state.chosen);
  if (!seen || state.walk.index === null) return null;
  const heads = seen.attention.cross.at(-1);
  const of = (target, source) => heads.reduce((sum, head) => sum + head[target][source], 0);
  const at = tokenOf(state);
  const values = side === "source" ? seen.source.tokens.map((_, s) => of(at, s)) : seen.target.tokens.map((_, t) => of(t, at));
  return values.indexOf(Math.max(...values));
}

function show(page, walk, view) {
  const kind = KINDS[walk.side][walk.step.split("-")[0]];
  const { layer } = place({ about: page.get().about, walk, view });
  page.set({ walk, view: kind && (kind !== view.kind || layer !== view.layer) ? { ...view, kind, layer } : view });
}

export function walkView(page) {
  const [section, box, where] = ["#walk-section", "#step", "#walk-token"].map(find);
  const request = newest();
  const cache = new Map();
  let seen = false;
  let timer = 0;
  let steps = [];
  let key = "";

  async function ask() {
    const state = page.get();
    const inspected = state.inspected.get(state.chosen);
    if (!seen || !inspected || !state.about) return;
    const { layer, head } = place(state);
    const token = tokenOf(state);
    const body = { text: state.sentences[state.chosen].source, target: state.sentences[state.chosen].target, side: state.walk.side, token, layer, head };
    const mine = key = JSON.stringify(body);
    box.classList.toggle("pending", !cache.has(mine));
    try {
      const found = cache.get(mine) ?? await request.run((signal) => post("api/steps", body, signal));
      if (!found || mine !== key) return;
      cache.set(mine, found);
      if (cache.size > KEPT) cache.delete(cache.keys().next().value);
      steps = stepsOf(found, { ...body, model: state.about.model, tokens: inspected });
      name(inspected, token, layer, head);
      draw();
    } catch (error) {
      if (mine !== key) return;
      pause();
      where.replaceChildren();
      box.replaceChildren(failure(error, ask));
    }
    box.classList.remove("pending");
  }

  function name(inspected, token, layer, head) {
    const { walk } = page.get();
    const piece = shown(inspected[walk.side].tokens[token].piece);
    where.replaceChildren(walk.side === "source" ? "Encoder, reading " : "Decoder, writing ", element("b", { dir: "auto" }, `“${piece}”`),
      `, position ${token} · layer ${layer + 1}, head ${head + 1}`);
  }

  function current() {
    return Math.max(0, steps.findIndex(({ id }) => id === page.get().walk.step));
  }

  function draw() {
    const at = current();
    const { title, says, equation, section: paragraph, anchor, pictures, heads, rows } = steps[at];
    const open = box.querySelector("details")?.open;
    const hadFocus = box.contains(document.activeElement);
    const table = asTable(title, heads, rows);
    box.replaceChildren(element("h4", {}, `${at + 1} of ${steps.length}: ${title}`), element("p", { class: "sentence-of-step" }, says),
      element("p", { class: "equation" }, element("code", {}, equation), " ", element("a", { href: paper(anchor), rel: "noopener" }, paragraph)),
      ...pictures(), table);
    if (open) table.open = true;
    if (hadFocus) table.firstChild.focus({ preventScroll: true });
    find("#back").disabled = at === 0;
    find("#forward").disabled = at === steps.length - 1;
    if (at === steps.length - 1) pause();
  }

  function move(by) {
    const to = steps[current() + by];
    if (to) show(page, { ...page.get().walk, step: to.id, index: tokenOf(page.get()) }, page.get().view);
  }

  function pause() {
    clearInterval(timer);
    timer = 0;
    find("#play").textContent = "Play";
  }

  function play() {
    if (timer) return pause();
    find("#play").textContent = "Pause";
    if (current() === steps.length - 1) show(page, { ...page.get().walk, step: "token" }, page.get().view);
    timer = setInterval(() => move(1), PAUSE);
    return undefined;
  }

  find("#back").addEventListener("click", () => { pause(); move(-1); });
  find("#forward").addEventListener("click", () => { pause(); move(1); });
  find("#play").addEventListener("click", play);
  find("#walk").addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by || event.target.closest("[role=region]")) return;
    event.preventDefault();
    pause();
    move(by);
  });
  onceSeen(section, () => { seen = true; ask(); });
  page.on((state, changed) => {
    if (state.token && changed("token") && state.token.sentence === state.chosen) {
      const { side, begin } = state.token;
      const step = stepOn(side, state.walk.step);
      if (side !== state.walk.side || begin !== state.walk.index) queueMicrotask(() => show(page, { step, side, index: begin }, page.get().view));
    }
    if (changed("inspected", "chosen", "walk", "view", "about")) ask();
  });
}
