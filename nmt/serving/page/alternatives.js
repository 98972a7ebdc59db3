// The menu of the most likely next words of the translation. The translation continues after the chosen word.

import { newest, post } from "./api.js";
import { button, element, find, percent, roving, stop } from "./dom.js";

const TAIL = 24; // maximum number of characters of the prefix in the heading
const LEAST = 0.005; // less likely words are hidden at first

const where = (prefix) => (prefix ? `After “${prefix.length > TAIL ? "…" : ""}${prefix.slice(-TAIL)}”` : "At the beginning");

export function alternatives(page, choose) {
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
    if (page.get().stale || page.get().guessing) return; // the translation on the page belongs to an older text
    word = at;
    const { source, target } = page.get().sentences[sentence];
    const prefix = target.slice(0, unit.begin).trimEnd();
    menu = element("div", { class: "menu", dir: "auto", onkeydown: keys },
      element("p", {}, where(prefix), ", these words are most likely. Beside each word is the model's continuation. The current word is bold."),
      element("p", { class: "quiet" }, "…"));
    word.setAttribute("aria-expanded", "true");
    find("#translator").append(menu);
    place();
    try {
      const answer = await request.run((signal) => post("api/alternatives", { text: source, prefix, target }, signal));
      if (answer && menu) fill(answer.alternatives, sentence, prefix);
    } catch (error) {
      menu?.lastChild.replaceWith(element("p", {}, error.message));
    }
  }

  function fill(found, sentence, prefix) {
    const items = found.map((each) => item(each, sentence, prefix));
    const likely = items.filter((_, i) => found[i].probability >= LEAST || found[i].stands);
    const folded = items.filter((one) => !likely.includes(one));
    const list = element("div", { role: "menu", "aria-label": "Alternatives", onkeydown: (event) =>
      roving([...list.querySelectorAll("button")], event, { across: "ArrowDown", back: "ArrowUp" }) }, ...likely);
    if (folded.length) {
      const more = button(`${folded.length} less likely alternatives, each below ${percent(LEAST)}`, () => {
        more.replaceWith(...folded);
        focus(folded[0]);
      }, { class: "more", role: "menuitem", tabindex: "-1" });
      list.append(more);
    }
    const focus = (one) => { stop(list.querySelectorAll("button"), one); one.focus({ preventScroll: true }); place(); };
    menu.lastChild.replaceWith(list);
    if (list.firstChild) focus(list.firstChild);
  }

  function item({ text, follows, probability, stands, ends }, sentence, prefix) {
    const name = ends ? "end of the sentence" : text.slice(prefix.length).trim();
    const made = button(null, () => {
      close({ refocus: true });
      if (!stands) choose(sentence, { prefix: text, ends });
    }, { role: "menuitemradio", "aria-checked": String(stands), tabindex: "-1",
      "aria-label": `${name}, ${percent(probability)}${follows && `, then: ${follows.trim()}`}` });
    made.replaceChildren(element("span", { class: "piece" }, element("span", { class: "word" }, name),
      element("span", { class: "quiet" }, follows)),
    element("span", { class: "share" }), element("span", { class: "number" }, percent(probability)));
    made.style.setProperty("--share", probability);
    return made;
  }

  function keys(event) {
    if (event.key === "Escape") close({ refocus: true });
  }

  /** Places the menu below the word, within the window. */
  function place() {
    const frame = find("#translator").getBoundingClientRect();
    const box = word.getBoundingClientRect();
    const left = Math.min(box.left - frame.left, frame.width - menu.offsetWidth);
    menu.style.setProperty("--left", `${Math.max(0, left)}px`);
    menu.style.setProperty("--top", `${box.bottom - frame.top + 4}px`);
    menu.scrollIntoView({ block: "nearest" });
  }

  for (const kind of ["pointerdown", "focusin"]) {
    document.addEventListener(kind, ({ target }) => { if (menu && !menu.contains(target) && target !== word) close(); });
  }
  addEventListener("resize", () => menu && close());
  page.on((_, changed) => { if (changed("sentences", "text")) close(); });
  return open;
}
