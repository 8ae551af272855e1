// A map of rows with a panel about the selected one, and lists of rows, for several pages. The page defines `page`: its
// words for what the map shows.

// ---- Data -----------------------------------------------------------------------------------------------------------

const data = decoded(JSON.parse(document.getElementById("data").textContent));
const { ids, classes, texts, thumbnails, given, predicted, second, confidence, positions, influences, weights } = data;
const count = ids.length;
const perRow = count ? influences.length / count : 0; // influences of a row
// The label of a row: the given one where there is one, else the predicted one.
const labels = predicted.map((prediction, row) => (given[row] < 0 ? prediction : given[row]));

// Replaces every packed array by a typed array, recursively.
function decoded(part) {
  for (const [key, value] of Object.entries(part)) {
    if (value === null || typeof value !== "object" || Array.isArray(value)) continue;
    part[key] = typeof value.base64 === "string" ? unpack(value) : decoded(value);
  }
  return part;
}

function unpack({ type, base64 }) {
  const binary = atob(base64);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < bytes.length; at++) bytes[at] = binary.charCodeAt(at);
  return type === "Int32Array" ? new Int32Array(bytes.buffer) : new Float32Array(bytes.buffer);
}

// ---- Building blocks ------------------------------------------------------------------------------------------------

const byId = (id) => document.getElementById(id);
const whole = (number) => number.toLocaleString("en");
const counted = (number, unit) => `${whole(number)} ${unit}${number === 1 ? "" : "s"}`;
const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)}\u00a0%`;

// Children that are strings become text nodes: user text is never parsed as HTML.
function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "click") made.addEventListener("click", value);
    else if (value !== null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function svg(tag, attributes, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  return made;
}

// User text, with its own writing direction.
const name = (text, tag = "span", kind = "name") =>
  el(tag, { class: kind, dir: "auto", title: kind.includes("line") ? text : null }, text); // a line may be truncated

function picture(row, size, alt = "") {
  const source = thumbnails && thumbnails[row];
  if (!source) return null;
  return el("img", { class: "picture", src: source, alt, width: size, height: size, decoding: "async" });
}

const meter = (share) => el("span", { class: "meter" }, el("i", { style: `width:${(100 * share).toFixed(1)}%` }));

const paragraph = (...parts) => el("p", { class: "soft" }, ...parts);

function announce(text) { // to screen readers
  byId("live").textContent = text;
}

// ---- Marks: a colour and a shape for each class ---------------------------------------------------------------------

const SHAPES = [
  "M1 0A1 1 0 1 1-1 0A1 1 0 1 1 1 0Z",
  "M-.88-.88H.88V.88H-.88Z",
  "M0-1.15L1.1.8H-1.1Z",
  "M0-1.25L1.1 0L0 1.25L-1.1 0Z",
  "M0 1.15L1.1-.8H-1.1Z",
  "M-.42-1.1H.42V-.42H1.1V.42H.42V1.1H-.42V.42H-1.1V-.42H-.42Z",
];
const HUES = data.palette.light.length;

const hueOf = (number) => number % HUES;
// A new shape each time the hues repeat. The last hue, grey, uses the next shape: some readers confuse it with rose.
const shapeOf = (number) => (Math.floor(number / HUES) + (hueOf(number) === HUES - 1 ? 1 : 0)) % SHAPES.length;

// A mark outside the map. A gap separates the ring from the mark, so that it shows around any hue.
function markPicture(shape, fill, ringed) {
  const made = svg("svg", { class: "swatch", viewBox: "-1.3 -1.3 2.6 2.6", "aria-hidden": "true" });
  if (ringed) made.append(svg("path", { d: SHAPES[shape], style: "stroke:var(--ink);stroke-width:1.3" }));
  const gap = ringed ? ";stroke:var(--ground);stroke-width:0.6;paint-order:stroke" : "";
  made.append(svg("path", { d: SHAPES[shape], style: `fill:${fill}${gap}` }));
  return made;
}

const swatch = (number, ringed) => markPicture(shapeOf(number), `var(--hue-${hueOf(number)})`, ringed);

const labelled = (number, ringed = false) =>
  el("span", { class: "tag" }, swatch(number, ringed), name(classes[number], "span", "name line"));

// ---- Colours of the canvas follow the style sheet, light or dark ----------------------------------------------------

const darkScreen = matchMedia("(prefers-color-scheme: dark)");
let printing = false;
let theme = {};

function readTheme() {
  const root = document.documentElement;
  const hues = darkScreen.matches && !printing ? data.palette.dark : data.palette.light;
  hues.forEach((hue, place) => root.style.setProperty(`--hue-${place}`, hue));
  const style = getComputedStyle(root);
  const colour = (key) => style.getPropertyValue(`--${key}`).trim();
  theme = { hues, ramp: ramp(["low", "middle", "high"].map(colour)) };
  for (const key of ["ink", "panel", "dim"]) theme[key] = colour(key);
  repaint({ restyled: true });
}

const STEPS = 24; // of the confidence ramp
const channels = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)); // of #rrggbb
function ramp(stops) {
  const known = stops.map(channels);
  return Array.from({ length: STEPS }, (_, step) => {
    const place = (step / (STEPS - 1)) * (stops.length - 1);
    const from = Math.min(Math.floor(place), stops.length - 2);
    const mixed = known[from].map((value, at) => value + (known[from + 1][at] - value) * (place - from));
    return `rgb(${mixed.map(Math.round).join(" ")})`;
  });
}

// ---- The map: where rows are ----------------------------------------------------------------------------------------

// Coordinates are scaled so that the longer side of the map is 1 and its middle is 0.
const xs = new Float32Array(count);
const ys = new Float32Array(count);
const extent = [0, 0];
{
  const low = [Infinity, Infinity];
  const high = [-Infinity, -Infinity];
  for (let at = 0; at < positions.length; at++) {
    low[at % 2] = Math.min(low[at % 2], positions[at]);
    high[at % 2] = Math.max(high[at % 2], positions[at]);
  }
  const span = Math.max(high[0] - low[0], high[1] - low[1]) || 1;
  for (let row = 0; row < count; row++) {
    xs[row] = (positions[2 * row] - (low[0] + high[0]) / 2) / span;
    ys[row] = ((low[1] + high[1]) / 2 - positions[2 * row + 1]) / span;
  }
  extent[0] = (high[0] - low[0]) / span || 1;
  extent[1] = (high[1] - low[1]) / span || 1;
}

// Spatial index for hit tests: the rows of each cell of a grid over the map.
const SIDE = Math.max(1, Math.min(256, Math.ceil(Math.sqrt(count / 3))));
const starts = new Int32Array(SIDE * SIDE + 1);
const members = new Int32Array(count);
const cellOf = (value) => Math.max(0, Math.min(SIDE - 1, Math.floor((value + 0.5) * SIDE)));
{
  const cells = Int32Array.from(xs, (x, row) => cellOf(ys[row]) * SIDE + cellOf(x));
  for (const cell of cells) starts[cell + 1]++;
  for (let cell = 0; cell < SIDE * SIDE; cell++) starts[cell + 1] += starts[cell];
  const next = starts.slice();
  cells.forEach((cell, row) => { members[next[cell]++] = row; });
}

// Drawing order: uncertain rows late and rows with a given label last, so that they are not covered by others.
const order = Int32Array.from({ length: count }, (_, row) => row)
  .sort((a, b) => (given[a] >= 0) - (given[b] >= 0) || confidence[b] - confidence[a]);
let [lowest, highest] = [1, 0];
for (const value of confidence) {
  lowest = Math.min(lowest, value);
  highest = Math.max(highest, value);
}

// ---- The map: drawing -----------------------------------------------------------------------------------------------

const canvas = byId("map");
const context = canvas.getContext("2d");
const view = { x: 0, y: 0, zoom: 1, width: 1, height: 1, ratio: 1 };
const hidden = new Set(); // class numbers
let marks = []; // as painted for this colouring and zoom
let painted = null; // all rows, as pixels
let mode = "label";
let selected = -1;
let hovered = -1; // the row under the pointer or the keyboard's cursor
let scheduled = false;

const PADDING = 28;
function scaleOf() { // CSS pixels for the longer side of the map
  return view.zoom * Math.min((view.width - 2 * PADDING) / extent[0], (view.height - 2 * PADDING) / extent[1]);
}
function toScreen(row) {
  const scale = scaleOf();
  return [view.width / 2 + (xs[row] - view.x) * scale, view.height / 2 + (ys[row] - view.y) * scale];
}
// Marks shrink with the number of rows and grow a little on zooming in.
const radius = () => Math.min(7, Math.max(1.4, 7 - 1.25 * Math.log10(count + 1)) * view.zoom ** 0.4);

function styleOf(row) {
  if (mode === "label") return labels[row];
  if (mode === "given") return given[row] < 0 ? 0 : 1;
  return Math.round(((confidence[row] - lowest) / (highest - lowest || 1)) * (STEPS - 1));
}

// Each kind of mark is painted once, and cached as an image and as a list of its pixels.
function markOf(row) {
  const ringed = given[row] >= 0;
  const key = 2 * styleOf(row) + (ringed ? 1 : 0);
  marks[key] ??= paintMark(styleOf(row), ringed);
  return marks[key];
}

function fillOf(style) {
  if (mode === "label") return theme.hues[hueOf(style)];
  return mode === "given" ? [theme.dim, theme.hues[0]][style] : theme.ramp[style];
}

function paintMark(style, ringed) {
  const size = radius() * (ringed ? 1.35 : 1) * view.ratio;
  const rim = Math.min(1.4, 0.35 + 0.25 * radius()) * view.ratio;
  const image = document.createElement("canvas");
  image.width = image.height = 2 * Math.ceil(size * 1.3 + 2.5 * rim) + 1;
  const pen = image.getContext("2d", { willReadFrequently: true });
  const fill = fillOf(style);
  const outline = new Path2D();
  const middle = image.width / 2;
  const shape = new Path2D(SHAPES[mode === "label" ? shapeOf(style) : 0]);
  outline.addPath(shape, new DOMMatrix().translate(middle, middle).scale(size));
  pen.lineJoin = "round";
  const rims = ringed
    ? [[3.4 * rim, theme.ink], [1.4 * rim, theme.panel]] // a gap separates the ring from the mark
    // A darker rim gives pale hues contrast; tiny marks have no room for one.
    : radius() > 2.4 ? [[0.9 * view.ratio, `color-mix(in srgb, ${fill} 72%, ${theme.ink})`]] : [];
  for (const [thickness, colour] of rims) {
    pen.lineWidth = thickness;
    pen.strokeStyle = colour;
    pen.stroke(outline);
  }
  pen.fillStyle = fill;
  pen.fill(outline);
  const pixels = new Uint32Array(pen.getImageData(0, 0, image.width, image.width).data.buffer);
  const inked = Int32Array.from(pixels.keys()).filter((at) => pixels[at] >>> 24);
  return {
    image,
    half: (image.width - 1) / 2,
    right: inked.map((at) => at % image.width),
    down: inked.map((at) => Math.floor(at / image.width)),
    colours: Uint32Array.from(inked, (at) => pixels[at]),
  };
}

// Blends a mark into the image; for 50,000 rows this is much faster than drawImage.
function stamp(pixels, across, along, { right, down, colours }, x, y) {
  for (let at = 0; at < colours.length; at++) {
    const toX = x + right[at];
    const toY = y + down[at];
    if (toX < 0 || toY < 0 || toX >= across || toY >= along) continue;
    const over = colours[at];
    const under = pixels[toY * across + toX];
    const share = (over >>> 24) + 1; // of 256
    const rest = 256 - share;
    const redBlue = (((over & 0xff00ff) * share + (under & 0xff00ff) * rest) >>> 8) & 0xff00ff;
    const green = (((over & 0xff00) * share + (under & 0xff00) * rest) >>> 8) & 0xff00;
    pixels[toY * across + toX] = 0xff000000 | redBlue | green;
  }
}

// Paints all rows; the result is cached until the view, the colours or the visible classes change.
function paintRows() {
  const { width: across, height: along } = canvas;
  const made = new ImageData(across, along);
  const pixels = new Uint32Array(made.data.buffer);
  const [red, green, blue] = channels(theme.panel);
  pixels.fill(0xff000000 | (blue << 16) | (green << 8) | red);
  const scale = scaleOf() * view.ratio;
  const left = across / 2 - view.x * scale;
  const top = along / 2 - view.y * scale;
  const margin = 24 * view.ratio;
  for (const row of order) {
    const x = left + xs[row] * scale;
    const y = top + ys[row] * scale;
    if (x < -margin || y < -margin || x > across + margin || y > along + margin || hidden.has(labels[row])) continue;
    const mark = markOf(row);
    stamp(pixels, across, along, mark, Math.round(x) - mark.half, Math.round(y) - mark.half);
  }
  return made;
}

function draw() {
  scheduled = false;
  painted ??= paintRows();
  context.putImageData(painted, 0, 0);
  context.setTransform(view.ratio, 0, 0, view.ratio, 0, 0);
  if (selected >= 0) drawInfluences();
  if (hovered >= 0 && hovered !== selected) ring(hovered, 1.5);
  if (selected >= 0) ring(selected, 2.5);
}

function drawInfluences() {
  const [x, y] = toScreen(selected);
  const found = influencesOf(selected);
  const heaviest = Math.max(...found.map(({ weight }) => weight), 1e-12);
  context.strokeStyle = theme.ink;
  context.globalAlpha = 0.6;
  for (const { row, weight } of found) {
    const [toX, toY] = toScreen(row);
    context.lineWidth = 0.5 + 2 * (weight / heaviest);
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(toX, toY);
    context.stroke();
  }
  context.globalAlpha = 1;
  for (const row of [...found.map((influence) => influence.row), selected]) {
    const { image } = markOf(row);
    const side = image.width / view.ratio;
    const [atX, atY] = toScreen(row);
    context.drawImage(image, atX - side / 2, atY - side / 2, side, side);
  }
}

function ring(row, thickness) {
  const [x, y] = toScreen(row);
  context.beginPath();
  context.arc(x, y, radius() * 1.4 + 5, 0, 2 * Math.PI);
  for (const [colour, extra] of [[theme.panel, 3], [theme.ink, 0]]) { // a gap separates it from marks around it
    context.strokeStyle = colour;
    context.lineWidth = thickness + extra;
    context.stroke();
  }
}

// Repaints all rows in the next frame; for rings and lines alone, `redraw` is enough.
function repaint({ restyled = false } = {}) {
  painted = null;
  if (restyled) marks = [];
  redraw();
}

function redraw() {
  if (!scheduled) {
    scheduled = true;
    requestAnimationFrame(draw);
  }
}

function resize() {
  const box = canvas.getBoundingClientRect();
  view.width = Math.max(1, box.width);
  view.height = Math.max(1, box.height);
  view.ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(view.width * view.ratio);
  canvas.height = Math.round(view.height * view.ratio);
  repaint({ restyled: true });
  draw(); // at once: setting the size clears the canvas
}

// ---- The map: panning, zooming and hit tests ------------------------------------------------------------------------

// Keeps the centre of the view on the map, and repaints.
function clampView() {
  view.x = Math.max(-extent[0] / 2, Math.min(extent[0] / 2, view.x));
  view.y = Math.max(-extent[1] / 2, Math.min(extent[1] / 2, view.y));
  if (view.zoom === 1) view.x = view.y = 0;
  repaint();
}

function pan(byX, byY) {
  view.x -= byX / scaleOf();
  view.y -= byY / scaleOf();
  clampView();
}

// Zooms about (x, y), which keeps its place on the screen.
function zoom(factor, x = view.width / 2, y = view.height / 2) {
  const before = scaleOf();
  const zoomed = Math.max(1, Math.min(400, view.zoom * factor));
  if (zoomed === view.zoom) return false;
  view.zoom = zoomed;
  const shift = 1 / before - 1 / scaleOf();
  view.x += (x - view.width / 2) * shift;
  view.y += (y - view.height / 2) * shift;
  marks = [];
  clampView();
  return true;
}

function reset() {
  view.zoom = 1;
  marks = [];
  clampView();
}

// Returns the nearest visible row within a distance in pixels, or -1.
function rowAt(x, y, maxDistance) {
  const scale = scaleOf();
  const atX = (x - view.width / 2) / scale + view.x;
  const atY = (y - view.height / 2) / scale + view.y;
  const far = maxDistance / scale;
  let best = -1;
  let least = far * far;
  for (let line = cellOf(atY - far); line <= cellOf(atY + far); line++) {
    const first = starts[line * SIDE + cellOf(atX - far)];
    const last = starts[line * SIDE + cellOf(atX + far) + 1];
    for (let at = first; at < last; at++) {
      const row = members[at];
      const distance = (xs[row] - atX) ** 2 + (ys[row] - atY) ** 2;
      if (distance <= least && !hidden.has(labels[row])) {
        least = distance;
        best = row;
      }
    }
  }
  return best;
}

// Returns the nearest visible row in a direction, or -1; an offset to the side counts double.
function nextRow(from, byX, byY) {
  let best = -1;
  let least = Infinity;
  for (let row = 0; row < count; row++) {
    const ahead = (xs[row] - xs[from]) * byX + (ys[row] - ys[from]) * byY;
    const aside = Math.abs((xs[row] - xs[from]) * byY) + Math.abs((ys[row] - ys[from]) * byX);
    if (ahead <= 0 || aside > 2 * ahead || hidden.has(labels[row])) continue;
    const cost = ahead * ahead + 4 * aside * aside;
    if (cost < least) {
      least = cost;
      best = row;
    }
  }
  return best;
}

function bringIntoView(row) {
  const [x, y] = toScreen(row);
  const edge = 40;
  const byX = x < edge ? edge - x : Math.min(0, view.width - edge - x);
  const byY = y < edge ? edge - y : Math.min(0, view.height - edge - y);
  if (view.zoom > 1 && (byX || byY)) pan(byX, byY);
}

function description(row) {
  return `Row ${ids[row]}, ${page.describe(row)}`;
}

function hover(row) {
  if (row === hovered) return;
  hovered = row;
  canvas.classList.toggle("over", row >= 0);
  redraw();
  showTip();
}

function showTip() {
  const tip = byId("tip");
  tip.hidden = hovered < 0;
  if (hovered < 0) return;
  const how = given[hovered] < 0 ? `${percent(confidence[hovered])} ${page.measure}` : page.ringed;
  tip.replaceChildren(
    ...[picture(hovered, 56)].filter(Boolean),
    el("div", {},
      name(ids[hovered], "div", "name line"),
      texts ? name(texts[hovered], "div", "name excerpt soft") : null,
      el("div", {}, labelled(labels[hovered], given[hovered] >= 0)),
      el("div", { class: "soft" }, how)));
  const [x, y] = toScreen(hovered);
  const left = x + 16 + tip.offsetWidth > view.width ? x - 16 - tip.offsetWidth : x + 16;
  const top = Math.min(y + 12, view.height - tip.offsetHeight - 6);
  tip.style.left = `${Math.max(4, Math.min(left, view.width - tip.offsetWidth - 4))}px`;
  tip.style.top = `${Math.max(4, top)}px`;
}

// ---- The map: pointer and keyboard ----------------------------------------------------------------------------------

const pointers = new Map();
let moved = 0; // pixels since the button went down: a click hardly moves

const place = (event) => {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};

canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, place(event));
  if (pointers.size === 1) moved = 0;
});

canvas.addEventListener("pointermove", (event) => {
  const [x, y] = place(event);
  const before = pointers.get(event.pointerId);
  if (!before) {
    hover(rowAt(x, y, 12));
    return;
  }
  const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
  pointers.set(event.pointerId, [x, y]);
  moved += Math.hypot(x - before[0], y - before[1]);
  if (moved < 4) return;
  hover(-1);
  canvas.classList.add("dragging");
  if (other) {
    const apart = Math.hypot(x - other[0], y - other[1]);
    const was = Math.max(1, Math.hypot(before[0] - other[0], before[1] - other[1]));
    zoom(apart / was, (x + other[0]) / 2, (y + other[1]) / 2);
    pan((x - before[0]) / 2, (y - before[1]) / 2);
  } else pan(x - before[0], y - before[1]);
});

function endPointer(event) {
  const click = event.type === "pointerup" && pointers.size === 1 && moved < 4;
  pointers.delete(event.pointerId);
  canvas.classList.remove("dragging");
  if (!click) return;
  const row = rowAt(...place(event), event.pointerType === "touch" ? 22 : 12);
  if (row >= 0) select(row);
  else clear();
}
canvas.addEventListener("pointerup", endPointer);
canvas.addEventListener("pointercancel", endPointer);
canvas.addEventListener("pointerleave", () => hover(-1));

canvas.addEventListener("wheel", (event) => {
  const unit = event.deltaMode === 1 ? 16 : 1; // lines or pixels
  const [x, y] = place(event);
  // At the limits of the zoom the page scrolls instead.
  if (zoom(Math.exp(-Math.max(-120, Math.min(120, event.deltaY * unit)) * 0.0025), x, y)) event.preventDefault();
  hover(-1);
}, { passive: false });

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

canvas.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const arrow = ARROWS[event.key];
  if (arrow && event.shiftKey) pan(-60 * arrow[0], -60 * arrow[1]);
  else if (arrow) step(...arrow);
  else if (event.key === "Enter" || event.key === " ") {
    if (hovered >= 0) select(hovered);
  } else if (event.key === "+" || event.key === "=") zoom(1.4);
  else if (event.key === "-") zoom(1 / 1.4);
  else if (event.key === "0" || event.key === "Home") reset();
  else if (event.key === "Escape") clear();
  else return;
  event.preventDefault();
  showTip();
});

function step(byX, byY) {
  const from = hovered >= 0 ? hovered : selected;
  const to = from >= 0 ? nextRow(from, byX, byY) : rowAt(view.width / 2, view.height / 2, view.width + view.height);
  if (to < 0) return;
  bringIntoView(to);
  hover(to);
  announce(description(to));
}

canvas.addEventListener("blur", () => hover(-1));
byId("zoom-in").addEventListener("click", () => zoom(1.5));
byId("zoom-out").addEventListener("click", () => zoom(1 / 1.5));
byId("zoom-reset").addEventListener("click", reset);

for (const choice of document.querySelectorAll("input[name=colour]")) {
  choice.after(page.colours[choice.value]);
  choice.checked = choice.value === mode; // browsers restore a choice after a reload
  choice.addEventListener("change", () => {
    mode = choice.value;
    showScale();
    repaint({ restyled: true });
  });
}

// ---- Legend ---------------------------------------------------------------------------------------------------------

function showScale() {
  const key = (...parts) => el("span", { class: "key soft" }, ...parts);
  const made = {
    label: () => [key(markPicture(0, "var(--dim)", true), `ringed: ${page.ringed}`)],
    confidence: () => [key(percent(lowest), el("span", { class: "ramp" }), `${percent(highest)} ${page.measure}`)],
    given: () => [
      key(markPicture(0, "var(--hue-0)", true), page.ringed),
      key(markPicture(0, "var(--dim)", false), page.plain),
    ],
  }[mode]();
  byId("scale").replaceChildren(...made);
}

const chips = classes.map((_, number) =>
  el("button",
    { type: "button", class: "chip", "aria-pressed": "true", click: () => toggle(number, hidden.has(number)) },
    labelled(number)));

function toggle(number, shown) {
  if (shown) hidden.delete(number);
  else hidden.add(number);
  chips[number].setAttribute("aria-pressed", String(shown));
  repaint();
}

byId("legend").append(...chips);
for (const shown of [true, false]) {
  byId(shown ? "show-all" : "show-none").addEventListener("click", () => {
    classes.forEach((_, number) => toggle(number, shown));
  });
}

// ---- Selection and the panel beside the map -------------------------------------------------------------------------

let path = null; // the list that the selected row was chosen from: {title, rows}

function influencesOf(row) {
  const found = [];
  for (let at = row * perRow; at < (row + 1) * perRow; at++) {
    if (influences[at] >= 0) found.push({ row: influences[at], weight: weights[at] });
  }
  return found;
}

function select(row, from = null) {
  selected = row;
  path = from;
  if (hidden.has(labels[row])) toggle(labels[row], true);
  bringIntoView(row);
  showDetails();
  for (const button of document.querySelectorAll("[data-row]")) {
    button.setAttribute("aria-current", String(Number(button.dataset.row) === row));
  }
  announce(`${description(row)}; selected`);
  redraw();
}

function clear() {
  selected = -1;
  path = null;
  showDetails();
  redraw();
}

// Selects a row of a list further down the page and scrolls up to the map.
function selectAndShow(row, from) {
  select(row, from);
  const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const [bench, panel] = [byId("workbench"), document.querySelector(".details")];
  const beside = panel.offsetTop < canvas.clientHeight + bench.offsetTop; // on a narrow screen it is below the map
  (beside ? bench : panel).scrollIntoView({ block: "start", behavior: reducedMotion ? "auto" : "smooth" });
}

function showDetails() {
  const title = el("h2", { id: "row-title" }, "Row");
  if (selected < 0) {
    byId("details").replaceChildren(title, paragraph(page.hint));
    return;
  }
  const row = selected;
  const found = influencesOf(row);
  byId("details").replaceChildren(...[
    title,
    path && steps(path, row),
    el("div", { class: "who" },
      picture(row, 84, `Picture of row ${ids[row]}`),
      el("div", {},
        name(ids[row], "div", "name id"),
        el("div", { class: "hint" }, given[row] < 0 ? page.plain : page.ringed))),
    el("dl", { class: "facts-of" }, ...page.facts(row)),
    page.note(row),
    texts && name(texts[row], "div", "name excerpt-whole"),
    el("h3", {}, page.influences),
    found.length
      ? influenceList(found)
      : el("p", { class: "hint" }, page.noInfluences),
  ].filter(Boolean));
}

function influenceList(found) {
  const heaviest = Math.max(...found.map(({ weight }) => weight), 1e-12);
  return el("ol", { class: "rows influences", id: "influences" }, ...found.map(({ row, weight }) => {
    const thumbnail = picture(row, 32);
    return el("li", {}, el("button", { type: "button", class: thumbnail ? "pictured" : null, click: () => select(row) },
      thumbnail,
      el("span", { class: "line" },
        name(ids[row], "div", "name line"),
        el("div", { class: "class" }, labelled(labels[row], given[row] >= 0))),
      meter(weight / heaviest),
      el("span", { class: "number" }, weight < 0.001 ? "<0.001" : weight.toFixed(weight < 0.01 ? 3 : 2))));
  }));
}

// Buttons for the previous and the next row of the list that the row was selected from.
function steps(from, row) {
  const at = from.rows.indexOf(row);
  const go = (to) => () => {
    select(from.rows[to], from);
    document.querySelector(to < at ? ".steps .back" : ".steps .on").focus();
  };
  const button = (text, label, kind, to) => {
    const made = el("button", { type: "button", class: `plain ${kind}`, "aria-label": label, click: go(to) }, text);
    made.disabled = to < 0 || to >= from.rows.length;
    return made;
  };
  return el("div", { class: "steps" },
    button("‹", "Previous in the list", "back", at - 1),
    el("span", { class: "soft" }, `${from.title}: ${at + 1} of ${whole(from.rows.length)}`),
    button("›", "Next in the list", "on", at + 1));
}

// ---- Search ---------------------------------------------------------------------------------------------------------

const query = byId("query");
query.placeholder = texts ? "Find an id or a text" : "Find an id";
query.setAttribute("aria-label", texts ? "Find a row by its id or text" : "Find a row by its id");
let matches = { text: null, rows: [] };

function search(text) {
  const wanted = text.toLowerCase();
  const ranked = [[], [], []]; // equal ids, ids that contain it, texts that contain it
  for (let row = 0; row < count; row++) {
    const id = ids[row].toLowerCase();
    if (ids[row] === text) ranked[0].push(row);
    else if (id.includes(wanted)) ranked[1].push(row);
    else if (texts && texts[row].toLowerCase().includes(wanted)) ranked[2].push(row);
  }
  return ranked.flat();
}

byId("search").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = query.value.trim();
  if (!text) return;
  if (matches.text === text && matches.rows.length) { // Enter again: the next match
    const { rows } = matches;
    select(rows[(rows.indexOf(selected) + 1) % rows.length], { title: "Found", rows });
    return;
  }
  matches = { text, rows: search(text) };
  if (matches.rows.length) select(matches.rows[0], { title: "Found", rows: matches.rows });
  query.setCustomValidity(matches.rows.length ? "" : "No row has this id");
  query.reportValidity();
  if (!matches.rows.length) announce(`No row found for ${text}`);
});
query.addEventListener("input", () => query.setCustomValidity(""));

// ---- Lists of rows --------------------------------------------------------------------------------------------------

const FIRST = 10; // entries before "show all"

// One entry for each row; `describe` returns what is shown between its name and its bar, and the share of the bar.
function rowList(section, title, rows, describe) {
  const list = el("ol", { class: "rows listed" });
  const entry = (row) => {
    const thumbnail = picture(row, 40);
    const [content, share] = describe(row);
    const click = () => selectAndShow(row, { title, rows });
    return el("li", {}, el("button", { type: "button", class: thumbnail ? "pictured" : null, "data-row": row, click },
      thumbnail,
      el("span", { class: "line" },
        name(ids[row], "div", "name line"),
        texts ? name(texts[row], "div", "name line hint") : null),
      el("span", { class: "class" }, ...content),
      el("span", { class: "with-bar" }, meter(share), el("span", { class: "number" }, percent(share)))));
  };
  list.append(...rows.slice(0, FIRST).map(entry));
  section.append(list);
  if (rows.length > FIRST) {
    const more = el("button", { type: "button", class: "plain more", click: () => {
      list.append(...rows.slice(FIRST).map(entry));
      more.remove();
      list.children[FIRST].firstChild.focus();
    } }, `Show all ${whole(rows.length)}`);
    section.append(more);
  }
}

function showFacts() {
  byId("facts").append(el("table", { class: "facts" }, el("tbody", {}, ...data.facts.map(([key, value]) =>
    el("tr", {}, el("th", { scope: "row" }, name(key)), name(value, "td"))))));
}

// ---- Start ----------------------------------------------------------------------------------------------------------

function startMap() {
  canvas.setAttribute("aria-label", `Map of ${whole(count)} rows: similar rows lie close together`);
  readTheme();
  showScale();
  showDetails();
  new ResizeObserver(resize).observe(canvas);
  resize();
  darkScreen.addEventListener("change", restyle);
  addEventListener("beforeprint", () => { printing = true; restyle(); });
  addEventListener("afterprint", () => { printing = false; restyle(); });
}

function restyle() {
  readTheme();
  draw();
}

// For tests and the browser's console: the position of a row in CSS pixels of the window, the selected row (-1: none),
// and the selection that a click makes.
window.angpnReport = {
  screenPosition(row) {
    const box = canvas.getBoundingClientRect();
    const [x, y] = toScreen(row);
    return { x: box.left + x, y: box.top + y };
  },
  selected: () => selected,
  select,
};
