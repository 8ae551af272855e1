// A map of rows on a canvas: where they lie, how they are drawn, panning, zooming and hit tests.
import { channels, paintMark, stamp } from "./marks.js";

const PADDING = 28;

export class PointMap {
  // `x` and `y` are numbers by row, y upwards. `rows` says what is drawn: `order`, the rows from back to front;
  // `shown(row)`; `keyOf(row)`, a whole number for how its mark looks; `lookOf(key)`, the look: shape, fill, ringed.
  // `overlay(context)` draws over them, and `theme` has the colours `ink` and `panel`, each as #rrggbb.
  constructor(canvas, x, y, rows, overlay) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.rows = rows;
    this.overlay = overlay;
    this.theme = { ink: "#000000", panel: "#ffffff" };
    this.view = { x: 0, y: 0, zoom: 1, width: 1, height: 1, ratio: 1 };
    this.marks = []; // as painted for these colours and this zoom
    this.painted = null; // all rows, as pixels
    this.scheduled = false;
    this.place(x, y);
  }

  // Scales coordinates so that the longer side of the map is 1 and its middle is 0.
  place(x, y) {
    const count = x.length;
    const low = [Infinity, Infinity];
    const high = [-Infinity, -Infinity];
    for (let row = 0; row < count; row++) {
      low[0] = Math.min(low[0], x[row]);
      high[0] = Math.max(high[0], x[row]);
      low[1] = Math.min(low[1], y[row]);
      high[1] = Math.max(high[1], y[row]);
    }
    const span = Math.max(high[0] - low[0], high[1] - low[1]) || 1;
    this.count = count;
    this.xs = Float32Array.from(x, (value) => (value - (low[0] + high[0]) / 2) / span);
    this.ys = Float32Array.from(y, (value) => ((low[1] + high[1]) / 2 - value) / span);
    this.extent = [(high[0] - low[0]) / span || 1, (high[1] - low[1]) / span || 1];
    this.indexRows();
  }

  // Spatial index for hit tests: the rows of each cell of a grid over the map.
  indexRows() {
    const { xs, ys, count } = this;
    this.side = Math.max(1, Math.min(256, Math.ceil(Math.sqrt(count / 3))));
    this.starts = new Int32Array(this.side * this.side + 1);
    this.members = new Int32Array(count);
    const cells = Int32Array.from(xs, (x, row) => this.cellOf(ys[row]) * this.side + this.cellOf(x));
    for (const cell of cells) this.starts[cell + 1]++;
    for (let cell = 0; cell < this.side * this.side; cell++) this.starts[cell + 1] += this.starts[cell];
    const next = this.starts.slice();
    cells.forEach((cell, row) => { this.members[next[cell]++] = row; });
  }

  cellOf(value) {
    return Math.max(0, Math.min(this.side - 1, Math.floor((value + 0.5) * this.side)));
  }

  // ---- Drawing ----

  scale() { // CSS pixels for the longer side of the map
    const { view, extent } = this;
    return view.zoom * Math.min((view.width - 2 * PADDING) / extent[0], (view.height - 2 * PADDING) / extent[1]);
  }

  toScreen(row) {
    const { view } = this;
    const scale = this.scale();
    return [view.width / 2 + (this.xs[row] - view.x) * scale, view.height / 2 + (this.ys[row] - view.y) * scale];
  }

  // Marks shrink with the number of rows and grow a little on zooming in.
  radius() {
    return Math.min(7, Math.max(1.4, 7 - 1.25 * Math.log10(this.count + 1)) * this.view.zoom ** 0.4);
  }

  // Each kind of mark is painted once, and cached.
  markOf(row) {
    const key = this.rows.keyOf(row);
    this.marks[key] ??= paintMark(this.rows.lookOf(key), this.radius(), this.view.ratio, this.theme);
    return this.marks[key];
  }

  // Paints all rows; the result is cached until the view, the colours or the visible rows change.
  paintRows() {
    const { width: across, height: along } = this.canvas;
    const { xs, ys, view } = this;
    const { order, shown } = this.rows;
    const made = new ImageData(across, along);
    const pixels = new Uint32Array(made.data.buffer);
    const [red, green, blue] = channels(this.theme.panel);
    pixels.fill(0xff000000 | (blue << 16) | (green << 8) | red);
    const scale = this.scale() * view.ratio;
    const left = across / 2 - view.x * scale;
    const top = along / 2 - view.y * scale;
    const margin = 24 * view.ratio;
    for (let at = 0; at < order.length; at++) {
      const row = order[at];
      const x = left + xs[row] * scale;
      const y = top + ys[row] * scale;
      if (x < -margin || y < -margin || x > across + margin || y > along + margin || !shown(row)) continue;
      const mark = this.markOf(row);
      stamp(pixels, across, along, mark, Math.round(x) - mark.half, Math.round(y) - mark.half);
    }
    return made;
  }

  draw() {
    const { context, view } = this;
    this.scheduled = false;
    this.painted ??= this.paintRows();
    context.putImageData(this.painted, 0, 0);
    context.setTransform(view.ratio, 0, 0, view.ratio, 0, 0);
    this.overlay(context);
  }

  // Draws the mark of a row again, over what covers it.
  raise(row) {
    const { image } = this.markOf(row);
    const side = image.width / this.view.ratio;
    const [x, y] = this.toScreen(row);
    this.context.drawImage(image, x - side / 2, y - side / 2, side, side);
  }

  ring(row, thickness) {
    const { context } = this;
    const [x, y] = this.toScreen(row);
    context.beginPath();
    context.arc(x, y, this.radius() * 1.4 + 5, 0, 2 * Math.PI);
    for (const [colour, extra] of [[this.theme.panel, 3], [this.theme.ink, 0]]) { // a gap separates it from marks
      context.strokeStyle = colour;
      context.lineWidth = thickness + extra;
      context.stroke();
    }
  }

  // Repaints all rows in the next frame; for what the overlay draws alone, `redraw` is enough.
  repaint({ restyled = false } = {}) {
    this.painted = null;
    if (restyled) this.marks = [];
    this.redraw();
  }

  redraw() {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => this.draw());
  }

  resize() {
    const { canvas, view } = this;
    const box = canvas.getBoundingClientRect();
    view.width = Math.max(1, box.width);
    view.height = Math.max(1, box.height);
    view.ratio = window.devicePixelRatio || 1;
    canvas.width = Math.max(1, Math.round(view.width * view.ratio));
    canvas.height = Math.max(1, Math.round(view.height * view.ratio));
    this.repaint({ restyled: true });
    this.draw(); // at once: setting the size clears the canvas
  }

  // ---- Panning and zooming ----

  // Keeps the centre of the view on the map, and repaints.
  clampView() {
    const { view, extent } = this;
    view.x = Math.max(-extent[0] / 2, Math.min(extent[0] / 2, view.x));
    view.y = Math.max(-extent[1] / 2, Math.min(extent[1] / 2, view.y));
    if (view.zoom === 1) view.x = view.y = 0;
    this.repaint();
  }

  pan(byX, byY) {
    this.view.x -= byX / this.scale();
    this.view.y -= byY / this.scale();
    this.clampView();
  }

  // Zooms about (x, y), which keeps its place on the screen; returns whether the zoom changed.
  zoom(factor, x = this.view.width / 2, y = this.view.height / 2) {
    const { view } = this;
    const before = this.scale();
    const zoomed = Math.max(1, Math.min(400, view.zoom * factor));
    if (zoomed === view.zoom) return false;
    view.zoom = zoomed;
    const shift = 1 / before - 1 / this.scale();
    view.x += (x - view.width / 2) * shift;
    view.y += (y - view.height / 2) * shift;
    this.marks = [];
    this.clampView();
    return true;
  }

  reset() {
    this.view.zoom = 1;
    this.marks = [];
    this.clampView();
  }

  // Zooms by a wheel's turn; at the limits of the zoom the page scrolls instead.
  turnWheel(event) {
    const unit = event.deltaMode === 1 ? 16 : 1; // lines or pixels
    const turn = Math.max(-120, Math.min(120, event.deltaY * unit));
    if (this.zoom(Math.exp(-turn * 0.0025), ...this.pointOf(event))) event.preventDefault();
  }

  // Moves with one finger or the mouse, and zooms with two: `before` and `now` of one pointer, and the other, if any.
  drag(before, now, other) {
    if (other) {
      const apart = Math.hypot(now[0] - other[0], now[1] - other[1]);
      const was = Math.max(1, Math.hypot(before[0] - other[0], before[1] - other[1]));
      this.zoom(apart / was, (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
      this.pan((now[0] - before[0]) / 2, (now[1] - before[1]) / 2);
    } else this.pan(now[0] - before[0], now[1] - before[1]);
  }

  bringIntoView(row) {
    const { view } = this;
    const [x, y] = this.toScreen(row);
    const edge = 40;
    const byX = x < edge ? edge - x : Math.min(0, view.width - edge - x);
    const byY = y < edge ? edge - y : Math.min(0, view.height - edge - y);
    if (view.zoom > 1 && (byX || byY)) this.pan(byX, byY);
  }

  // ---- Hit tests ----

  pointOf(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  // Returns the nearest visible row within a distance in pixels, or -1.
  rowAt(x, y, maxDistance) {
    const { view, xs, ys, side } = this;
    const scale = this.scale();
    const atX = (x - view.width / 2) / scale + view.x;
    const atY = (y - view.height / 2) / scale + view.y;
    const far = maxDistance / scale;
    let best = -1;
    let least = far * far;
    for (let line = this.cellOf(atY - far); line <= this.cellOf(atY + far); line++) {
      const first = this.starts[line * side + this.cellOf(atX - far)];
      const last = this.starts[line * side + this.cellOf(atX + far) + 1];
      for (let at = first; at < last; at++) {
        const row = this.members[at];
        const distance = (xs[row] - atX) ** 2 + (ys[row] - atY) ** 2;
        if (distance <= least && this.rows.shown(row)) {
          least = distance;
          best = row;
        }
      }
    }
    return best;
  }

  // Returns the nearest visible row in a direction, or -1; an offset to the side counts double.
  nextRow(from, byX, byY) {
    const { xs, ys } = this;
    let best = -1;
    let least = Infinity;
    for (let row = 0; row < this.count; row++) {
      const ahead = (xs[row] - xs[from]) * byX + (ys[row] - ys[from]) * byY;
      const aside = Math.abs((xs[row] - xs[from]) * byY) + Math.abs((ys[row] - ys[from]) * byX);
      if (ahead <= 0 || aside > 2 * ahead || !this.rows.shown(row)) continue;
      const cost = ahead * ahead + 4 * aside * aside;
      if (cost < least) {
        least = cost;
        best = row;
      }
    }
    return best;
  }

  // Returns the visible rows inside a closed polygon of points of the screen (even-odd rule).
  rowsInside(polygon) {
    const { view, xs, ys } = this;
    const scale = this.scale();
    const corners = polygon.map(([x, y]) =>
      [(x - view.width / 2) / scale + view.x, (y - view.height / 2) / scale + view.y]);
    const [lowX, highX] = [Math.min(...corners.map(([x]) => x)), Math.max(...corners.map(([x]) => x))];
    const found = [];
    for (let row = 0; row < this.count; row++) {
      const [x, y] = [xs[row], ys[row]];
      if (x < lowX || x > highX) continue;
      let inside = false;
      for (let at = 0, from = corners.length - 1; at < corners.length; from = at++) {
        const [toX, toY] = corners[at];
        const [fromX, fromY] = corners[from];
        if (toY > y !== fromY > y && x < toX + ((fromX - toX) * (y - toY)) / (fromY - toY)) inside = !inside;
      }
      if (inside && this.rows.shown(row)) found.push(row);
    }
    return found;
  }
}
