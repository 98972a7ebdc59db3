// The menu of most likely next tokens at a word. The translation continues from a chosen token.

import { newest, post } from "./api.js";
import { button, element, find, percent, roving, stop } from "./dom.js";
import { following } from "./text.js";

const TAIL = 24; // characters of the prefix in the heading

const where = (prefix) => (prefix ? `After “${prefix.length > TAIL ? "…" : ""}${prefix.slice(-TAIL)}”` : "At the beginning");

export function alternatives(page, { force, end }) {
  const request = newest();
  let menu = null;
  let word = null;

  function close({ refocus = false } = {}) {
    request.stop();
    menu?.remove();
    menu = null;
    word?.removeAttribute("aria-expanded");
    if (refocus && word?.isConnected) word.focus();
  }

  async function open(sentence, unit, at) {
    close();
    if (page.get().stale) return; // an old translation does not belong to the new text
    word = at;
    const { source, target } = page.get().sentences[sentence];
    const prefix = target.slice(0, unit.begin).trimEnd();
    menu = element("div", { class: "menu", onkeydown: keys },
      element("p", {}, where(prefix), ", the most likely tokens. The current one is bold. A token is a word or a part of one; "
        + "the model completes the translation from your choice."),
      element("p", { class: "quiet" }, "…"));
    word.setAttribute("aria-expanded", "true");
    find("#translator").append(menu);
    place();
    try {
      const answer = await request.run((signal) => post("api/next_tokens", { text: source, prefix, k: 10 }, signal));
      if (answer && menu) fill(answer.tokens, sentence, prefix, target);
    } catch (error) {
      menu?.lastChild.replaceWith(element("p", {}, error.message));
    }
  }

  function fill(tokens, sentence, prefix, target) {
    const items = tokens.map((token) => {
      const isEnd = token.piece === "</s>";
      const now = !isEnd && target.startsWith(token.text) && token.text.length > prefix.length;
      const broken = token.text.includes("\ufffd"); // a token of an incomplete character cannot be a prefix
      const choose = () => {
        if (broken) return;
        close();
        if (isEnd) end(sentence, prefix);
        else force(sentence, token.text);
        find("#target").querySelector("[tabindex='0']")?.focus();
      };
      const made = button(null, choose, {
        role: "menuitemradio", "aria-disabled": broken && "true", "aria-checked": String(now), tabindex: "-1",
        "aria-label": `${following(token.piece)}, ${percent(token.probability)}`,
      });
      made.replaceChildren(element("span", { class: "piece" }, following(token.piece)),
        element("span", { class: "share" }), element("span", { class: "number" }, percent(token.probability)));
      made.style.setProperty("--share", token.probability);
      return made;
    });
    const list = element("div", { role: "menu", "aria-label": "Alternatives", onkeydown: (event) =>
      roving(items, event, { across: "ArrowDown", back: "ArrowUp" }) }, ...items);
    menu.lastChild.replaceWith(list);
    if (!items.length) return;
    stop(items, items[0]);
    items[0].focus();
    place();
  }

  function keys(event) {
    if (event.key === "Escape") close({ refocus: true });
  }

  function place() {
    const frame = find("#translator").getBoundingClientRect();
    const box = word.getBoundingClientRect();
    const left = Math.min(box.left - frame.left, frame.width - menu.offsetWidth);
    menu.style.setProperty("--left", `${Math.max(0, left)}px`);
    menu.style.setProperty("--top", `${box.bottom - frame.top + 4}px`);
  }

  document.addEventListener("pointerdown", (event) => {
    if (menu && !menu.contains(event.target) && event.target !== word) close();
  });
  document.addEventListener("focusin", (event) => {
    if (menu && !menu.contains(event.target) && event.target !== word) close();
  });
  addEventListener("resize", () => menu && close());
  page.on((state, before) => { if (state.sentences !== before.sentences || state.text !== before.text) close(); });
  return open;
}
