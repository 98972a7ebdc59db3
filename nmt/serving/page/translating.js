// Requests translations while the user types, and repeats failed requests.

import { newest, post } from "./api.js";
import { ranges } from "./text.js";

const DEBOUNCE = 250; // ms without typing
const RETRY = [2, 4, 8, 15]; // s

export function translating(page) {
  const request = newest();
  let timer = 0;
  let attempt = 0;
  let linked = []; // choices from a link: [index of the sentence, choice]

  function later(what, ms) {
    clearTimeout(timer);
    timer = setTimeout(what, ms);
  }

  /** Handles a change of the text: drops the current request and starts a new request after a pause. */
  function type(text, choices = [], delay = DEBOUNCE) {
    request.stop();
    linked = choices;
    page.set({ text, stale: true, pointed: null, token: null });
    later(translate, delay);
  }

  /** Shows a text whose translation is known. */
  function show({ text, translation }) {
    page.set({ text, ...reset(sentencesOf(text, translation)) });
  }

  async function translate() {
    const { text, limit } = page.get();
    clearTimeout(timer);
    if (!text.trim()) return page.set({ ...reset([]), choices: new Map(), chosen: 0, problem: null });
    const length = text.length > limit ? [...text].length : 0; // code points, as the server counts
    if (length > limit) return page.set({ problem: { message: tooLong(length, limit) } });
    return ask(async (signal) => {
      const answer = await post("api/translate", { text, document: true }, signal);
      const sentences = sentencesOf(text, answer.translations[0]);
      const choices = new Map(page.get().choices);
      for (const [index, choice] of linked) if (sentences[index]) choices.set(sentences[index].source, choice);
      const chosen = sentences.map((each) => (choices.has(each.source) ? again(each, choices.get(each.source), signal) : each));
      return { ...reset(await Promise.all(chosen)), choices };
    }, translate);
  }

  /** Translates a sentence again with a choice, or without a choice if `choice` is null. */
  async function again(sentence, choice, signal) {
    if (choice?.ends) return { ...sentence, target: choice.prefix, choice, doubts: [] };
    const body = { text: sentence.source, prefix: choice?.prefix ?? "" };
    const { translations: [{ text: target, sentences }] } = await post("api/translate", body, signal);
    return { ...sentence, target, choice, doubts: sentences[0]?.doubts ?? [] };
  }

  /** Stores a choice for its sentence and translates the sentence again; null undoes the choice. */
  function choose(index, choice) {
    const { sentences } = page.get();
    page.set({ stale: true });
    const choices = new Map(page.get().choices);
    if (choice) choices.set(sentences[index].source, choice);
    else choices.delete(sentences[index].source);
    return ask(async (signal) => ({
      ...reset(sentences.with(index, await again(sentences[index], choice, signal))), choices, chosen: index,
    }), () => choose(index, choice));
  }

  async function ask(work, repeat) {
    try {
      const changes = await request.run(work);
      if (!changes) return;
      attempt = 0;
      linked = [];
      page.set({ ...changes, problem: null });
    } catch (error) {
      const wait = error.again ? RETRY[Math.min(attempt++, RETRY.length - 1)] : null;
      page.set({ problem: { message: error.message, gone: error.gone, again: wait && repeat } });
      if (wait) later(repeat, 1000 * wait);
    }
  }

  return { type, show, choose };
}

const tooLong = (length, limit) => `This text has ${length.toLocaleString("en")} characters, but at most `
  + `${limit.toLocaleString("en")} can be translated at once. Shorten the text, or translate it in parts.`;

const reset = (sentences) => ({ sentences, stale: false, inspected: new Map(), token: null, pointed: null });

function sentencesOf(text, found) {
  const [ours, theirs] = [ranges(text), ranges(found.text)];
  let before = 0;
  return found.sentences.map((each) => {
    const [[begin, end], [first, last]] = [ours(each.source), theirs(each.target)];
    const gap = found.text.slice(before, first);
    before = last;
    return { begin, end, source: text.slice(begin, end), target: found.text.slice(first, last), gap,
      choice: null, doubts: each.doubts ?? [] };
  });
}

export const whole = (sentences) => sentences.map(({ gap, target }) => gap + target).join("");
