// Shows values under the pointer, or by arrow keys.
"use strict";
const charts = JSON.parse(document.getElementById("data-of-charts").textContent);

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

function height({ low, high, log }, value) {
  const place = log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  return 100 * place + "%";
}

function answer(plot, chart) {
  const view = chart.views[plot.dataset.view];
  const along = (point) => (plot.dataset.view === "step" ? point[0] : point[1] / view.scale);
  const lines = chart.lines
    .map((line) => ({ ...line, points: line.points.filter((point) => view.unit === "step" || point[1] !== null) }))
    .filter((line) => line.points.length);
  const stops = [...new Set(lines.flatMap((line) => line.points.map(along)))].sort((a, b) => a - b);
  let at = 0;
  let shown = [];

  function clear() {
    shown.forEach((part) => part.remove());
    shown = [];
  }

  function show(x) {
    clear();
    const nearest = lines.map((line) =>
      line.points.reduce((best, point) => (Math.abs(along(point) - x) < Math.abs(along(best) - x) ? point : best)));
    const distance = Math.min(...nearest.map((point) => Math.abs(along(point) - x)));
    const chosen = along(nearest.find((point) => Math.abs(along(point) - x) === distance));
    const left = 100 * chosen / view.end;
    const cursor = element("div", "cursor");
    cursor.style.left = left + "%";
    const tip = element("div", "tip");
    tip.style[left > 50 ? "right" : "left"] = "calc(" + (left > 50 ? 100 - left : left) + "% + 0.75rem)";
    const title = view.unit === "step" ? "step " + chosen.toLocaleString("en") : figure(chosen) + " " + view.unit;
    tip.append(element("p", "", title));
    shown = [cursor, tip];
    lines.forEach((line, number) => {
      const point = nearest[number];
      // skips lines without a point nearby
      if (Math.abs(along(point) - chosen) > view.end / 100) return;
      tip.append(element("div", "run-" + (line.run % 6), line.label + " " + figure(point[2])));
      const dot = element("span", "dot run-" + (line.run % 6));
      dot.style.left = 100 * along(point) / view.end + "%";
      dot.style.bottom = height(chart.values, point[2]);
      shown.push(dot);
    });
    plot.append(...shown);
  }

  function follow(event) {
    const box = plot.getBoundingClientRect();
    show(view.end * (event.clientX - box.left) / box.width);
  }

  plot.addEventListener("pointermove", follow);
  plot.addEventListener("pointerdown", follow);
  plot.addEventListener("pointerleave", clear);
  plot.addEventListener("blur", clear);
  plot.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!move) return;
    event.preventDefault();
    at = Math.min(stops.length - 1, Math.max(0, shown.length ? at + move : at));
    show(stops[at]);
  });
}

for (const drawing of document.querySelectorAll("[data-chart]")) {
  for (const plot of drawing.querySelectorAll(".plot")) answer(plot, charts[drawing.dataset.chart]);
}
