// Shows the values at the pointer or at points chosen with the arrow keys, smooths the curves, and zooms in.
"use strict";
const charts = JSON.parse(document.getElementById("data-of-charts").textContent);
const [smoothing, first, last] = ["smoothing", "first", "last"].map((id) => document.getElementById(id));
const zoom = { step: null, time: null }; // [first, last] on the x axis, or null for the whole run

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function figure(value) {
  const small = value !== 0 && Math.abs(value) < 1e-3;
  const digits = Math.abs(value) >= 1e4 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 4 };
  return small ? value.toExponential(2) : value.toLocaleString("en", digits);
}

function label(value) {
  if (value !== 0 && Math.abs(value) < 1e-3) return value.toExponential();
  const compact = Math.abs(value) >= 1e4 ? { notation: "compact", maximumFractionDigits: 3 } : { maximumSignificantDigits: 6 };
  return value.toLocaleString("en", compact).replace("K", "k");
}

/** Returns the exponential moving average of values, corrected for its start as in TensorBoard. */
function smoothed(values, weight) {
  let sum = 0;
  return values.map((value, n) => {
    sum = weight * sum + (1 - weight) * value;
    return sum / (1 - weight ** (n + 1));
  });
}

/** Returns multiples of 1, 2 or 5 times a power of ten, about four from `low` to `high`. */
function ticks(low, high) {
  const raw = (high - low || Math.abs(high) || 1) / 4;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((times) => times * power).find((each) => each >= raw * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, n) => Number(((first + n) * step).toPrecision(12)));
}

/** Returns an axis for values, steps or times, with labels in the same format as the labels in the page. */
function axis(low, high, log = false) {
  const decades = Array.from({ length: Math.ceil(Math.log10(high / low)) + 2 }, (_, n) => 10 ** (Math.floor(Math.log10(low)) + n));
  const marks = log ? decades.flatMap((decade) => (high > 1000 * low ? [decade] : [decade, 2 * decade, 5 * decade])) : ticks(low, high);
  const made = { low, high, log };
  return { ...made, labels: marks.filter((tick) => low <= tick && tick <= high).map((tick) => [label(tick), place(made, tick)]) };
}

function valueAxis(values, log) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  if (log && most >= 5 * least) return axis(least, most, true);
  const margin = (most - least) / 20 || Math.abs(most) / 20 || 1;
  return axis(least - margin, most + margin);
}

const place = ({ low, high, log }, value) => (log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low));

/** Makes a plot react to the pointer and keys; returns a function that redraws the plot for the current controls. */
function answer(plot, chart) {
  const kind = plot.dataset.view;
  const view = chart.views[kind];
  const svg = plot.querySelector("svg");
  const { width, height } = svg.viewBox.baseVal;
  const groups = svg.querySelectorAll("g");
  const along = (point) => (kind === "step" ? point[0] : point[1] / view.scale);
  const lines = chart.lines
    .map((line) => ({ ...line, points: line.points.filter((point) => kind === "step" || point[1] !== null) }))
    .filter((line) => line.points.length);
  let across, upward, stops; // the axes, and the positions of points
  let at = 0;
  let shown = [];

  function arrange() {
    across = zoom[kind] ? axis(...zoom[kind]) : view;
    for (const line of lines) {
      const values = line.points.map((point) => point[2]);
      const means = line.marked ? values : smoothed(values, Number(smoothing.value));
      line.all = line.points.map((point, n) => ({ x: along(point), value: means[n] }));
      line.inside = line.all.filter(({ x }) => across.low <= x && x <= across.high);
    }
    const inside = lines.flatMap((line) => line.inside);
    stops = [...new Set(inside.map(({ x }) => x))].sort((a, b) => a - b);
    upward = zoom[kind] && inside.length ? valueAxis(inside.map(({ value }) => value), chart.values.log) : chart.values;
  }

  function draw() {
    clear();
    arrange();
    const x = (value) => (place(across, value) * width).toFixed(1);
    const y = (value) => ((1 - place(upward, value)) * height).toFixed(1);
    svg.classList.toggle("zoomed", Boolean(zoom[kind]));
    svg.querySelector(".grid").setAttribute("d", upward.labels.map(([, at]) => `M0 ${(1 - at) * height}H${width}`).join(""));
    lines.forEach(({ all }, n) => {
      const places = all.map((point) => `${x(point.x)} ${y(point.value)}`);
      groups[n].querySelector(".line").setAttribute("d", `M${places.join("L")}`);
      groups[n].querySelector(".marks")?.setAttribute("d", places.map((each) => `M${each}h0`).join(""));
    });
    for (const [name, side, { labels }] of [["y", "bottom", upward], ["x", "left", across]]) {
      plot.parentElement.querySelector(`.${name}`).replaceChildren(...labels.map(([text, at]) => {
        const made = element("span", "", text);
        made.style[side] = `${100 * at}%`;
        return made;
      }));
    }
  }

  function clear() {
    shown.forEach((part) => part.remove());
    shown = [];
  }

  function show(x) {
    clear();
    if (!stops.length) return;
    const nearer = (key) => (best, each) => (Math.abs(key(each) - x) < Math.abs(key(best) - x) ? each : best);
    const chosen = stops.reduce(nearer((stop) => stop));
    const left = 100 * place(across, chosen);
    const cursor = element("div", "cursor");
    cursor.style.left = left + "%";
    const tip = element("div", "tip");
    tip.style[left > 50 ? "right" : "left"] = "calc(" + (left > 50 ? 100 - left : left) + "% + 0.75rem)";
    const title = view.unit === "step" ? "step " + chosen.toLocaleString("en") : figure(chosen) + " " + view.unit;
    tip.append(element("p", "", title));
    shown = [cursor, tip];
    for (const { run, label: name, inside } of lines) {
      const point = inside.length ? inside.reduce(nearer((each) => each.x)) : null;
      // skips lines without a point nearby
      if (!point || Math.abs(point.x - chosen) > (across.high - across.low) / 100) continue;
      tip.append(element("div", "run-" + (run % 6), name + " " + figure(point.value)));
      const dot = element("span", "dot run-" + (run % 6));
      dot.style.left = 100 * place(across, point.x) + "%";
      dot.style.bottom = 100 * place(upward, point.value) + "%";
      shown.push(dot);
    }
    plot.append(...shown);
  }

  function under(event) {
    const box = plot.getBoundingClientRect();
    const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    return across.low + (across.high - across.low) * share;
  }

  let from = null; // where a drag begins
  function follow(event) {
    show(under(event));
    if (from === null) return;
    const ends = [from, under(event)].map((x) => 100 * place(across, x)).sort((a, b) => a - b);
    const range = element("div", "range");
    [range.style.left, range.style.width] = [ends[0] + "%", ends[1] - ends[0] + "%"];
    shown.push(range);
    plot.append(range);
  }

  plot.addEventListener("pointermove", follow);
  plot.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse") { from = under(event); plot.setPointerCapture(event.pointerId); }
    follow(event);
  });
  plot.addEventListener("pointerup", (event) => {
    const ends = from === null ? [] : [from, under(event)].sort((a, b) => a - b);
    from = null;
    if (ends[1] - ends[0] > (across.high - across.low) / 50) zoomTo(kind, ends);
  });
  plot.addEventListener("pointerleave", clear);
  plot.addEventListener("blur", clear);
  plot.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!move) return;
    event.preventDefault();
    at = Math.min(stops.length - 1, Math.max(0, shown.length ? at + move : at));
    show(stops[at]);
  });
  arrange();
  return draw;
}

const plots = [...document.querySelectorAll("[data-chart]")].flatMap((drawing) =>
  [...drawing.querySelectorAll(".plot")].map((plot) => answer(plot, charts[drawing.dataset.chart])));
const kindShown = () => (document.getElementById("axis-time")?.checked ? "time" : "step");

/** Shows the part of the x axis between `ends` in all charts, or the whole axis if `ends` is null. */
function zoomTo(kind, ends) {
  zoom[kind] = ends;
  fill();
  plots.forEach((draw) => draw());
}

function fill() {
  const kind = kindShown();
  const { low, high } = charts[0].views[kind];
  const digits = kind === "step" ? 0 : 2;
  [first.value, last.value] = (zoom[kind] ?? [low, high]).map((end) => Number(end.toFixed(digits)));
}

if (charts.length) {
  document.getElementById("controls").hidden = false;
  smoothing.addEventListener("input", () => {
    smoothing.nextElementSibling.textContent = Number(smoothing.value).toFixed(2);
    plots.forEach((draw) => draw());
  });
  for (const field of [first, last]) {
    field.addEventListener("change", () => {
      const [low, high] = [first, last].map(({ value }) => Number(value));
      if (low < high) zoomTo(kindShown(), [low, high]);
    });
  }
  document.getElementById("whole").addEventListener("click", () => zoomTo(kindShown(), null));
  for (const radio of document.querySelectorAll("[name=axis]")) radio.addEventListener("change", fill);
  fill();
}
