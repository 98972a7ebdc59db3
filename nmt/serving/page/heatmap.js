// A matrix of weights as a picture: queries are rows, keys are columns, full colour is 1.

/** Draws weights into a canvas, one block a cell; colours come from the page's style. */
export function paint(canvas, weights, cell) {
  const [rows, columns] = [weights.length, weights[0].length];
  const scale = cell * Math.min(2, window.devicePixelRatio || 1);
  canvas.width = Math.round(columns * scale);
  canvas.height = Math.round(rows * scale);
  const context = canvas.getContext("2d");
  context.fillStyle = getComputedStyle(canvas).getPropertyValue("--accent");
  weights.forEach((row, q) => row.forEach((weight, k) => {
    if (weight < 0.004) return;
    context.globalAlpha = Math.min(1, weight) ** 0.7; // small ones are seen, too
    const [x, y] = [Math.round(k * scale), Math.round(q * scale)];
    context.fillRect(x, y, Math.round((k + 1) * scale) - x, Math.round((q + 1) * scale) - y);
  }));
}

/** The cell under the pointer. */
export function cellAt(canvas, weights, event) {
  const box = canvas.getBoundingClientRect();
  const [rows, columns] = [weights.length, weights[0].length];
  const q = Math.floor(((event.clientY - box.top) / box.height) * rows);
  const k = Math.floor(((event.clientX - box.left) / box.width) * columns);
  return q >= 0 && q < rows && k >= 0 && k < columns ? { q, k } : null;
}
