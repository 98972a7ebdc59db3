// Requests translations while the user types, and repeats failed requests.

import { newest, post } from "./api.js";
import { empty } from "./store.js";
import { ranges } from "./text.js";

const DEBOUNCE = 250; // ms without typing
const RETRY = [2, 4, 8, 15]; // s

export function translating(page) {
  const request = newest();
  let timer = 0;
  let attempt = 0;

  function later(what, ms) {
    clearTimeout(timer);
    timer = setTimeout(what, ms);
  }

  /** Handles a change of the text: drops the current request and starts another after a pause. */
  function type(text) {
    request.stop();
    page.set({ text, stale: true, pointed: null, token: null, undo: null });
    later(translate, DEBOUNCE);
  }

  async function translate() {
    const { text } = page.get();
    clearTimeout(timer);
    const { view, limit, microscope } = page.get();
    if (!text.trim()) return page.set({ ...empty, view, limit, microscope, text, problem: null });
    const length = text.length > limit ? [...text].length : 0; // code points, as the server counts
    if (length > limit) return page.set({ problem: { message: tooLong(length, limit) } });
    return ask({ text, document: true }, (found) => ({ ...sentencesOf(text, found), undo: null }));
  }

  /** Translates one sentence again with a prefix; null for none. */
  async function force(index, prefix) {
    const { text, sentences } = page.get();
    page.set({ stale: true });
    const replaced = (target) => ({
      ...reset(sentences.with(index, { ...sentences[index], target, prefix: prefix ?? "" })),
      text, chosen: index, undo: prefix === null ? null : index,
    });
    const body = { text: sentences[index].source, prefix: prefix ?? "" };
    return ask(body, (found) => replaced(found.text), () => force(index, prefix));
  }

  /** Ends a translation at the chosen point, without calling the model. */
  function end(index, target) {
    const { sentences } = page.get();
    page.set({ ...reset(sentences.with(index, { ...sentences[index], target, prefix: target })), undo: index });
  }

  async function ask(body, changes, again = translate) {
    try {
      const answer = await request.run((signal) => post("api/translate", body, signal));
      if (!answer) return;
      attempt = 0;
      page.set({ ...changes(answer.translations[0]), problem: null });
    } catch (error) {
      const wait = error.again ? RETRY[Math.min(attempt++, RETRY.length - 1)] : null;
      page.set({ problem: { message: error.message, gone: error.gone, again: wait && again } });
      if (wait) later(again, 1000 * wait);
    }
  }

  return { type, translate, force, end };
}

const tooLong = (length, limit) => `This text has ${length.toLocaleString("en")} characters, but at most `
  + `${limit.toLocaleString("en")} can be translated at once. Shorten it, or translate it in parts.`;

const reset = (sentences) => ({ sentences, stale: false, inspected: new Map(), token: null, pointed: null });

function sentencesOf(text, found) {
  const [ours, theirs] = [ranges(text), ranges(found.text)];
  let before = 0;
  const sentences = found.sentences.map((each) => {
    const [[begin, end], [first, last]] = [ours(each.source), theirs(each.target)];
    const gap = found.text.slice(before, first);
    before = last;
    return { begin, end, source: text.slice(begin, end), target: found.text.slice(first, last), gap, prefix: "" };
  });
  return reset(sentences);
}

export const whole = (sentences) => sentences.map(({ gap, target }) => gap + target).join("");
