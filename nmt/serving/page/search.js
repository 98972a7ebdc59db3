// The beam search for a translation, and the ranking of its hypotheses for other length penalties.

import { newest, onceSeen, post } from "./api.js";
import { asTable, button, decimal, element, failure, find } from "./dom.js";
import { path, ranked, spelt } from "./ranking.js";
import { drawTree, legend, STATES } from "./tree.js";

const BEAMS = [1, 2, 4, 8];
const SHOWN = 8; // maximum number of finished hypotheses in the list

export function searchView(page) {
  const box = find("#search");
  const request = newest();
  let seen = false; // whether the section has ever been visible
  let asked = "";
  let tree = null;
  let beam = null; // null: the beam size in the model's configuration
  let alpha = null;
  let mark = () => {};

  const says = element("p", { class: "says" });
  const forest = element("div", { class: "wide tree", tabindex: "0", role: "region", "aria-label": "Beam search as a tree" });
  const list = element("ol", { class: "ranking" });
  const number = element("output", { for: "alpha" });
  const slider = element("input", { type: "range", id: "alpha", min: "0", max: "2", step: "0.05",
    oninput: () => rank(Number(slider.value)) });
  const beams = element("select", { id: "beam", onchange: () => { beam = Number(beams.value); ask(); } });
  const table = asTable("All compared hypotheses",
    ["step", "rank", "token", "state", "log P", "text so far"], () => tree.steps.flatMap((step, at) => step.map((node, index) => [
      String(at + 1), String(index + 1), node.piece, STATES[node.state], decimal(node.log_probability), text({ step: at, index })])));
  const controls = element("div", { class: "controls" },
    element("label", { for: "beam" }, "Beam"), beams,
    element("span", { class: "alpha" }, element("label", { for: "alpha" }, "α"), slider, number));
  const all = [controls, says, list, legend(), forest, table];

  const text = (at) => spelt(path(tree.steps, at).map((index, step) => tree.steps[step][index].piece));

  function pick(at) {
    const node = tree.steps[at.step][at.index];
    mark(at);
    says.textContent = `“${text(at)}”, step ${at.step + 1}: log P ${decimal(node.log_probability)}, ${STATES[node.state]}.`;
  }

  function rank(value) {
    alpha = value;
    slider.value = value;
    number.textContent = value.toFixed(2);
    slider.setAttribute("aria-valuetext", `alpha ${value.toFixed(2)}`);
    const order = ranked(tree.finished, alpha);
    list.replaceChildren(...order.slice(0, SHOWN).map((each) => element("li", {},
      button(each.text || "(empty)", () => pick(each), { dir: "auto" }),
      element("span", { class: "figures" }, `${decimal(each.score)} = ${decimal(each.log_probability)} / ((5 + ${each.length}) / 6)`,
        element("sup", {}, alpha.toFixed(2))))));
    if (order.length) {
      mark(order[0]);
      const which = order.length === 1 ? "the only finished hypothesis" : `the best of ${order.length} finished hypotheses`;
      says.textContent = `With α = ${alpha.toFixed(2)}, ${which} is “${order[0].text}”.${order.length > SHOWN ? ` The best ${SHOWN} are listed.` : ""}`;
    } else {
      mark({ step: tree.steps.length - 1, index: 0 });
      says.textContent = "No hypothesis finished. The most likely hypothesis was truncated at the maximum length.";
    }
  }

  function show(found) {
    tree = found;
    const wanted = [...new Set([...BEAMS, found.beam])].sort((a, b) => a - b);
    beams.replaceChildren(...wanted.map((width) => element("option", { value: width, selected: width === found.beam }, String(width))));
    table.open = false;
    box.replaceChildren(...all); // before the tree is drawn, because it measures its texts
    mark = drawTree(forest, found, pick);
    rank(alpha ?? found.length_penalty);
  }

  async function ask() {
    const { sentences, chosen, stale, microscope } = page.get();
    const sentence = sentences[chosen];
    if (!microscope || !seen || stale || !sentence) return;
    const { source } = sentence;
    const prefix = sentence.choice?.prefix ?? "";
    const body = beam === null ? { text: source, prefix } : { text: source, prefix, beam };
    const key = JSON.stringify(body);
    if (key === asked) return;
    asked = key;
    box.classList.add("pending"); // the displayed search is for another sentence or beam size
    try {
      const found = await request.run((signal) => post("api/search", body, signal));
      if (!found) return;
      show(found);
      box.classList.remove("pending");
    } catch (error) {
      asked = "";
      box.classList.remove("pending");
      box.replaceChildren(failure(error, ask));
    }
  }

  onceSeen(find("#search-section"), () => { seen = true; ask(); });
  page.on((state, changed, before) => {
    if (state.sentences[state.chosen]?.source !== before.sentences[before.chosen]?.source) beam = alpha = null;
    if (changed("sentences", "chosen", "microscope")) ask();
  });
}
