// The tree of a beam search, with one column per step and the most likely candidates at the top.

import { decimal, element, roving, stop, svg } from "./dom.js";
import { path } from "./ranking.js";
import { shown } from "./text.js";

const [WIDTH, HEIGHT, COLUMN, ROW, LETTERS] = [86, 24, 112, 30, 9];
const TOP = 24;
export const STATES = { live: "survivor", pruned: "pruned", finished: "finished" }; // readable form
const cut = (piece) => ([...piece].length > LETTERS ? `${[...piece].slice(0, LETTERS - 1).join("")}…` : piece);
const x = (step) => step * COLUMN + 1;
const y = (index) => TOP + index * ROW + 1;

/** Draws a search and returns a function that marks a path. `pick` is called with each chosen node. */
export function drawTree(box, { steps }, pick) {
  const nodes = steps.map((step, at) => step.map((node, index) => drawNode(node, at, index)));
  const links = steps.map((step, at) => step.map((node, index) => (node.parent === null ? null : drawLink(at, node, index))));
  const flat = nodes.flat();
  const rows = Math.max(...steps.map((step) => step.length));
  const picture = svg("svg", {
    viewBox: `0 0 ${steps.length * COLUMN} ${TOP + rows * ROW + 2}`, role: "group", "aria-label":
      `Beam search in ${steps.length} steps; the left and right arrow keys follow a hypothesis, and up and down move within a step`,
  }, ...steps.map((_, at) => svg("text", { x: x(at), y: 14, class: "step", "aria-hidden": "true" }, `${at + 1}`)),
  ...links.flat().filter(Boolean), ...flat);
  picture.style.width = `${(steps.length * COLUMN) / 16}rem`; // grows with the page's font size
  box.replaceChildren(picture);
  for (const text of picture.querySelectorAll(".node text")) if (text.getComputedTextLength() > WIDTH - 14) text.setAttribute("textLength", WIDTH - 14);
  stop(flat, flat[0]);

  function drawNode(node, step, index) {
    const mine = { step, index };
    const made = svg("g", {
      class: `node ${node.state}`, role: "button", tabindex: "-1", transform: `translate(${x(step)} ${y(index)})`,
      "aria-label": `step ${step + 1}: ${shown(node.piece).replace("▁", "")}, log P ${decimal(node.log_probability, 2)}, ${STATES[node.state]}`,
      onclick: () => pick(mine), onfocus: () => { stop(flat, made); pick(mine); },
      onkeydown: (event) => move(event, mine),
    }, svg("title", {}, `${node.piece}: log P ${decimal(node.log_probability, 2)}, ${STATES[node.state]}`),
    svg("rect", { width: WIDTH, height: HEIGHT, rx: 5 }),
    svg("text", { x: 7, y: 16, lengthAdjust: "spacingAndGlyphs" }, node.state === "finished" ? "■ end" : cut(shown(node.piece))));
    return made;
  }

  function drawLink(step, node, index) {
    const [x1, y1, x2, y2] = [x(step - 1) + WIDTH, y(node.parent) + HEIGHT / 2, x(step), y(index) + HEIGHT / 2];
    const middle = (x1 + x2) / 2;
    return svg("path", { class: `link ${node.state}`, d: `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}` });
  }

  function move(event, { step, index }) {
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      const back = event.key === "ArrowLeft";
      const to = back ? nodes[step - 1]?.[steps[step][index].parent]
        : nodes[step + 1]?.[steps[step + 1].findIndex((node) => node.parent === index)];
      event.preventDefault();
      to?.focus();
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      pick({ step, index });
    } else roving(nodes[step], event, { across: "ArrowDown", back: "ArrowUp" });
  }

  /** Marks the path to a node and brings the node into the box. */
  return function mark(at) {
    const [node, frame] = [nodes[at.step][at.index], box].map((one) => one.getBoundingClientRect());
    if (node.left < frame.left || node.right > frame.right) box.scrollLeft += node.left - frame.left - frame.width / 2;
    const on = new Set(path(steps, at).map((index, step) => `${step}:${index}`));
    steps.forEach((step, s) => step.forEach((_, index) => {
      const marked = on.has(`${s}:${index}`);
      nodes[s][index].classList.toggle("marked", marked);
      links[s][index]?.classList.toggle("marked", marked);
    }));
  };
}

/** Returns the legend for the three kinds of nodes. */
export const legend = () => element("ul", { class: "legend" },
  ...[["live", "continued in the next step"], ["pruned", "not among the best of its step"], ["finished", "ends here"]].map(([state, text]) =>
    element("li", {}, element("span", { class: `key ${state}`, "aria-hidden": "true" }), `${STATES[state]}: ${text}`)));
