// Puts the page together.

import { get } from "./api.js";
import { alternatives } from "./alternatives.js";
import { attentionView } from "./attention.js";
import { button, element, find, paper } from "./dom.js";
import { guessView } from "./guess.js";
import { looking } from "./looking.js";
import { sentenceAt, sourcePane, targetPane } from "./panes.js";
import { searchView } from "./search.js";
import { empty, store } from "./store.js";
import { fromFragment, isFinished, toFragment } from "./text.js";
import { tokensView } from "./tokens.js";
import { translating, whole } from "./translating.js";

const EXAMPLE = "The old man who lives here reads a good book. His daughter does not see the small dog.";
const SETTLED = 1000; // ms after which an answer is read out
const LONGEST_LINK = 4000; // characters

const page = store({ ...empty, problem: null, blind: null, undo: null });
const look = looking(page);
const translator = translating(page);
const source = sourcePane(page, look, translator.type);
targetPane(page, look, alternatives(page, translator));
tokensView(page, look);
attentionView(page, look);
searchView(page);
guessView(page);

page.on((state, before) => {
  if (state.problem !== before.problem) problem(state.problem);
  if (state.sentences !== before.sentences) answered(state);
  if (state.sentences !== before.sentences || state.chosen !== before.chosen || state.blind !== before.blind) heading(state);
  find("#undo").hidden = state.undo === null || state.stale;
});

function problem(found) {
  const box = find("#problem");
  box.hidden = !found;
  if (!found) return;
  const kept = found.gone ? " Your text is still here." : "";
  const again = found.again && button("Try now", () => found.again());
  box.replaceChildren(element("p", {}, found.message, kept, again ? " I keep trying." : ""), ...(again ? [again] : []));
}

function answered(state) {
  const { sentences, text } = state;
  find("#microscope").hidden = !sentences.length;
  const link = text.length <= LONGEST_LINK ? toFragment(text) : " ";
  if (location.hash !== link.trim()) history.replaceState(null, "", link === " " ? location.pathname : link);
  if (sentences.length) {
    const at = state.undo ?? Math.max(0, sentenceAt(state, source.caret()));
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
/** Reads out the finished sentences of an answer that has stayed for a while. */
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
    at.textContent = "Not allowed here";
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
  if (text !== null && text !== page.get().text) translator.type(text.slice(0, find("#source").maxLength));
}

for (const link of document.querySelectorAll("a[data-paper]")) {
  link.href = paper(link.dataset.paper);
  link.rel = "noopener";
}

async function languages() {
  try {
    const { language, charLimit } = await get("frontend/settings");
    find("#source").maxLength = charLimit;
    for (const [side, { code, name }] of Object.entries(language)) {
      find(`#${side}-name`).textContent = name;
      find(`#${side}`).lang = code;
    }
    find("#example").hidden = language.source.code !== "en";
  } catch {
    setTimeout(languages, 3000); // the names are no great loss meanwhile
  }
}
find("#source").maxLength = 20_000;
languages();
const typed = find("#source").value; // what the browser kept, or was typed before this ran
if (typed) translator.type(typed);
else restore();
