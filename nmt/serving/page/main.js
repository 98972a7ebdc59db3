// Connects the parts of the page.

import { get } from "./api.js";
import { alternatives } from "./alternatives.js";
import { button, element, find, paper } from "./dom.js";
import { firstSight } from "./first.js";
import { looking } from "./looking.js";
import { sourcePane, targetPane } from "./panes.js";
import { empty, inModel, stepOf, store, walkFrom } from "./store.js";
import { fromFragment, isFinished, toFragment } from "./text.js";
import { translating, whole } from "./translating.js";

const SETTLED = 1000; // ms without a change before screen readers announce an answer
const RETRY = 2000; // ms
const SHOWN = 80; // maximum number of characters quoted from the previous text
const LONGEST_LINK = 4000; // characters

const page = store({ ...empty, problem: null, blind: null });
const look = looking(page);
const translator = translating(page);
sourcePane(page, look, translator.type);
targetPane(page, look, alternatives(page, translator.choose));

page.on((state, changed, before) => {
  if (changed("problem")) problem(state.problem);
  if (changed("sentences")) answered(state, before);
  if (changed("sentences", "chosen", "blind")) heading(state);
  if (changed("inspected", "chosen", "blind")) gate(state);
  if (changed("microscope")) inside(state);
  if (changed("stale", "problem")) waiting(state);
  if (changed("sentences", "stale")) doubt(state);
  if (changed("sentences", "walk", "view")) link(state);
  document.body.classList.toggle("guessing", state.guessing);
  find("#undo").hidden = !state.sentences[state.chosen]?.choice || state.stale;
});

function problem(found) {
  const box = find("#problem");
  box.hidden = !found;
  if (!found) return;
  const kept = found.gone ? " Your text is still here." : "";
  const again = found.again && button("Try now", () => found.again());
  box.replaceChildren(element("p", {}, found.message, kept, again ? " The page keeps trying." : ""), ...(again ? [again] : []));
}

/** Shows the microscope, or the reason why there is none. */
function inside({ sentences, microscope }) {
  find("#microscope").hidden = !sentences.length || !microscope;
  find("#no-microscope").hidden = microscope !== false;
  for (const one of document.querySelectorAll(".of-inside")) one.hidden = microscope === false;
}

/** Marks the page as waiting for the translation of the current text. */
function waiting({ text, sentences, stale, problem: found }) {
  find("#working").hidden = !stale || Boolean(found) || !text.trim();
  find("#microscope").classList.toggle("stale", stale);
  const old = sentences.map(({ source }) => source).join(" ");
  find("#belongs").hidden = !stale || !found || !old;
  find("#belongs").replaceChildren("Still the translation of ",
    element("q", { dir: "auto" }, old.length > SHOWN ? `${old.slice(0, SHOWN)}…` : old));
}

const DOUBTS = {
  empty: "The translation is empty, but the text is not.",
  repeats: "The translation repeats itself.",
  bytes: "More than half of the translation is spelled in bytes: the vocabulary has no tokens for these characters.",
  unsure: "The model is uncertain: the geometric mean of the token probabilities is below 50%.",
};

/** Shows the doubts about the translation, above it. */
function doubt({ sentences, stale }) {
  const lines = Object.keys(DOUBTS).flatMap((name) => {
    const places = sentences.flatMap(({ doubts }, n) => (doubts.includes(name) ? [n + 1] : []));
    if (!places.length) return [];
    const which = sentences.length > 1 ? `Sentence ${places.join(", ")}: ` : "";
    return [element("p", {}, which, DOUBTS[name])];
  });
  find("#doubts").hidden = !lines.length || stale;
  find("#doubts").replaceChildren(...lines);
}

function answered({ sentences, chosen }, { stale: isRequested }) {
  inside(page.get());
  if (sentences.length) queueMicrotask(() => look.choose(Math.min(chosen, sentences.length - 1)));
  if (isRequested) settle();
  else for (const { target } of sentences) read.add(target); // the opening translation, which nobody requested
}

/** Writes the text, the choices and the open step to the page's address. */
function link(state) {
  if (state.stale) return;
  const found = toFragment({ ...state, step: stepOf(state) });
  if (found.length <= LONGEST_LINK && location.hash !== found) history.replaceState(null, "", found || location.pathname);
}

function heading({ sentences, chosen, blind }) {
  const sentence = sentences[chosen];
  if (!sentence) return;
  find("#which").replaceChildren(sentences.length > 1 ? `Sentence ${chosen + 1} of ${sentences.length}: ` : "",
    element("q", { dir: "auto" }, sentence.source), blind ? element("span", { class: "blind" }, ` ${blind}`) : "");
  find("#previous").disabled = chosen === 0;
  find("#next").disabled = chosen === sentences.length - 1;
  find(".turn").hidden = sentences.length < 2;
}

/** Hides everything in the microscope that does not belong to the sentence in its heading. */
function gate({ inspected, chosen, blind }) {
  find("#views").classList.toggle("pending", !inspected.has(chosen));
  find("#views").hidden = Boolean(blind);
}

let settling = 0;
const read = new Set();
/** Announces the finished sentences of an answer to screen readers when the answer no longer changes. */
function settle() {
  clearTimeout(settling);
  settling = setTimeout(() => {
    const { sentences, stale } = page.get();
    if (stale) return;
    const fresh = sentences.filter(({ source: from, target }) => isFinished(from) && !read.has(target));
    read.clear();
    for (const { target } of sentences) read.add(target);
    if (fresh.length) find("#announce").textContent = fresh.map(({ target }) => target).join(" ");
  }, SETTLED);
}

async function copy(text, at) {
  const before = at.textContent;
  try {
    await navigator.clipboard.writeText(text);
    at.textContent = "Copied";
  } catch {
    at.textContent = "Not permitted";
  }
  setTimeout(() => { at.textContent = before; }, 1500);
}

find("#clear").addEventListener("click", () => { translator.type(""); find("#source").focus(); });
find("#copy").addEventListener("click", (event) => copy(whole(page.get().sentences), event.target));
find("#link").addEventListener("click", (event) => copy(location.href, event.target));
find("#undo").addEventListener("click", () => {
  translator.choose(page.get().chosen, null);
  find("#target .unit")?.focus({ preventScroll: true }); // the button disappears
});
find("#previous").addEventListener("click", () => look.choose(page.get().chosen - 1));
find("#next").addEventListener("click", () => look.choose(page.get().chosen + 1));
find("#lecture").addEventListener("click", ({ target }) => {
  const on = document.documentElement.classList.toggle("lecture");
  target.setAttribute("aria-pressed", String(on));
});
addEventListener("hashchange", () => restore());
addEventListener("online", () => page.get().problem?.again?.());

/** Shows the text, choices and step that the page's address contains; returns false if it contains no text. */
function restore() {
  const found = fromFragment(location.hash);
  if (!found) return false;
  page.set(walkFrom(found.step, page.get()));
  if (found.text !== page.get().text || found.choices.length) translator.type(found.text, found.choices, 0);
  return true;
}

for (const one of document.querySelectorAll("a[data-paper]")) {
  one.href = paper(one.dataset.paper);
  one.rel = "noopener";
}

async function describe() {
  try {
    const about = await get("api/model");
    page.set({ about, limit: about.characters, microscope: about.microscope, view: inModel(page.get().view, about) });
    for (const side of ["source", "target"]) {
      find(`#${side}-name`).textContent = about[side].name;
      find(`#${side}`).lang = about[side].code;
    }
    firstSight(page, translator);
  } catch {
    setTimeout(describe, RETRY); // until then the panes have neutral names
  }
}

/** Loads the microscope without delaying the first translation. */
function loadMicroscope() {
  import("./inside.js").then(({ views }) => views(page, look), () => setTimeout(loadMicroscope, RETRY));
}

const typed = find("#source").value; // restored by the browser, or typed before this script ran
if (!restore() && typed) translator.type(typed);
describe();
loadMicroscope();
