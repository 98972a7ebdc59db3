// Connects the parts of the page.

import { get } from "./api.js";
import { alternatives } from "./alternatives.js";
import { button, element, find, paper } from "./dom.js";
import { guessView } from "./guess.js";
import { headsView } from "./heads.js";
import { looking } from "./looking.js";
import { sourcePane, targetPane } from "./panes.js";
import { searchView } from "./search.js";
import { empty, store } from "./store.js";
import { fromFragment, isFinished, toFragment } from "./text.js";
import { tokensView } from "./tokens.js";
import { translating, whole } from "./translating.js";

const EXAMPLE = "The old man who lives here reads a good book. His daughter does not see the small dog.";
const SETTLED = 1000; // ms before screen readers announce an answer
const SHOWN = 80; // characters quoted of the previous text
const LONGEST_LINK = 4000; // characters

const page = store({ ...empty, problem: null, blind: null, undo: null });
const look = looking(page);
const translator = translating(page);
sourcePane(page, look, translator.type);
targetPane(page, look, alternatives(page, translator));
tokensView(page, look);
headsView(page, look);
searchView(page);
guessView(page);

page.on((state, before) => {
  if (state.problem !== before.problem) problem(state.problem);
  if (state.sentences !== before.sentences) answered(state);
  if (state.sentences !== before.sentences || state.chosen !== before.chosen || state.blind !== before.blind) heading(state);
  if (state.microscope !== before.microscope) inside(state);
  if (state.stale !== before.stale || state.problem !== before.problem) waiting(state);
  find("#undo").hidden = state.undo === null || state.stale;
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

/** Marks the page while it waits for the translation of the current text. */
function waiting({ text, sentences, stale, problem: found }) {
  find("#working").hidden = !stale || Boolean(found) || !text.trim();
  find("#microscope").classList.toggle("stale", stale);
  const old = sentences.map(({ source }) => source).join(" ");
  find("#belongs").hidden = !stale || !found || !old;
  find("#belongs").replaceChildren("Still the translation of ",
    element("q", {}, old.length > SHOWN ? `${old.slice(0, SHOWN)}…` : old));
}

function answered(state) {
  const { sentences, text } = state;
  inside(page.get());
  const link = text.length <= LONGEST_LINK ? toFragment(text) : " ";
  if (location.hash !== link.trim()) history.replaceState(null, "", link === " " ? location.pathname : link);
  if (sentences.length) {
    const at = state.undo ?? 0;
    queueMicrotask(() => look.choose(Math.min(at, sentences.length - 1)));
  }
  settle();
}

function heading({ sentences, chosen, blind }) {
  const sentence = sentences[chosen];
  if (!sentence) return;
  find("#which").replaceChildren(sentences.length > 1 ? `Sentence ${chosen + 1} of ${sentences.length}: ` : "",
    element("q", {}, sentence.source), blind ? element("span", { class: "blind" }, ` ${blind}`) : "");
  find("#previous").disabled = chosen === 0;
  find("#next").disabled = chosen === sentences.length - 1;
  find(".turn").hidden = sentences.length < 2;
}

let settling = 0;
const read = new Set();
/** Announces the finished sentences of an answer to screen readers, once it is stable. */
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

function fill(text) {
  translator.type(text);
  find("#source").focus();
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

find("#example").addEventListener("click", () => fill(EXAMPLE));
find("#clear").addEventListener("click", () => fill(""));
find("#copy").addEventListener("click", (event) => copy(whole(page.get().sentences), event.target));
find("#link").addEventListener("click", (event) => copy(location.href, event.target));
find("#undo").addEventListener("click", () => translator.force(page.get().undo, null));
find("#previous").addEventListener("click", () => look.choose(page.get().chosen - 1));
find("#next").addEventListener("click", () => look.choose(page.get().chosen + 1));
addEventListener("hashchange", () => restore());
addEventListener("online", () => page.get().problem?.again?.());

function restore() {
  const text = fromFragment(location.hash);
  if (text !== null && text !== page.get().text) translator.type(text);
}

for (const link of document.querySelectorAll("a[data-paper]")) {
  link.href = paper(link.dataset.paper);
  link.rel = "noopener";
}

async function languages() {
  try {
    const { language, charLimit, microscope } = await get("frontend/settings");
    page.set({ limit: charLimit, microscope });
    for (const [side, { code, name }] of Object.entries(language)) {
      find(`#${side}-name`).textContent = name;
      find(`#${side}`).lang = code;
    }
    find("#example").hidden = language.source.code !== "en";
  } catch {
    setTimeout(languages, 3000); // until then the panes have neutral names
  }
}
languages();
const typed = find("#source").value; // restored by the browser, or typed before this script ran
if (typed) translator.type(typed);
else restore();
