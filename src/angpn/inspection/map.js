// A map of rows with a panel about the selected one, and lists of rows, for several pages. The page defines `page`: its
// words for what the map shows.

// ---- Data -----------------------------------------------------------------------------------------------------------

const data = decoded(JSON.parse(document.getElementById("data").textContent));
const { ids, classes, texts, thumbnails, given, predicted, second, confidence, positions, influences, weights } = data;
const cells = data.cells || null; // of a table: columns, and values by row
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
  const { buffer } = bytesOf(base64);
  return type === "Int32Array" ? new Int32Array(buffer) : new Float32Array(buffer);
}

// ---- Building blocks ------------------------------------------------------------------------------------------------

function picture(row, size, alt = "") {
  const source = thumbnails && thumbnails[row];
  if (!source) return null;
  return el("img", { class: "picture", src: source, alt, width: size, height: size, decoding: "async" });
}

// What a reader knows a row by beside its id: its text, or its first cells; null where there is neither.
const CELLS_IN_EXCERPT = 4;
function excerpt(row) {
  if (texts) return texts[row];
  if (!cells) return null;
  return cells.values[row].slice(0, CELLS_IN_EXCERPT).map((value, at) => `${cells.columns[at]} ${value || "–"}`).join(" · ");
}

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
  map.theme = theme;
  map.repaint({ restyled: true });
}

const STEPS = 24; // of the confidence ramp
function ramp(stops) {
  const known = stops.map(channels);
  return Array.from({ length: STEPS }, (_, step) => {
    const place = (step / (STEPS - 1)) * (stops.length - 1);
    const from = Math.min(Math.floor(place), stops.length - 2);
    const mixed = known[from].map((value, at) => value + (known[from + 1][at] - value) * (place - from));
    return `rgb(${mixed.map(Math.round).join(" ")})`;
  });
}

// ---- The map: drawing -----------------------------------------------------------------------------------------------

// Drawing order: uncertain rows late and rows with a given label last, so that they are not covered by others.
const order = Int32Array.from({ length: count }, (_, row) => row)
  .sort((a, b) => (given[a] >= 0) - (given[b] >= 0) || confidence[b] - confidence[a]);
let [lowest, highest] = [1, 0];
for (const value of confidence) {
  lowest = Math.min(lowest, value);
  highest = Math.max(highest, value);
}

const canvas = byId("map");
const hidden = new Set(); // class numbers
let mode = "label";
let selected = -1;
let hovered = -1; // the row under the pointer or the keyboard's cursor

function styleOf(row) {
  if (mode === "label") return labels[row];
  if (mode === "given") return given[row] < 0 ? 0 : 1;
  return Math.round(((confidence[row] - lowest) / (highest - lowest || 1)) * (STEPS - 1));
}

function fillOf(style) {
  if (mode === "label") return theme.hues[hueOf(style)];
  return mode === "given" ? [theme.dim, theme.hues[0]][style] : theme.ramp[style];
}

const map = new PointMap(
  canvas,
  positions.filter((_, at) => at % 2 === 0),
  positions.filter((_, at) => at % 2 === 1),
  {
    order,
    shown: (row) => !hidden.has(labels[row]),
    keyOf: (row) => 2 * styleOf(row) + (given[row] >= 0 ? 1 : 0),
    lookOf: (key) => {
      const style = key >> 1;
      return { shape: mode === "label" ? shapeOf(style) : 0, fill: fillOf(style), ringed: key % 2 === 1 };
    },
  },
  () => {
    if (selected >= 0) drawInfluences();
    if (hovered >= 0 && hovered !== selected) map.ring(hovered, 1.5);
    if (selected >= 0) map.ring(selected, 2.5);
  },
);

function drawInfluences() {
  const { context } = map;
  const [x, y] = map.toScreen(selected);
  const found = influencesOf(selected);
  const heaviest = Math.max(...found.map(({ weight }) => weight), 1e-12);
  context.strokeStyle = theme.ink;
  context.globalAlpha = 0.6;
  for (const { row, weight } of found) {
    const [toX, toY] = map.toScreen(row);
    context.lineWidth = 0.5 + 2 * (weight / heaviest);
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(toX, toY);
    context.stroke();
  }
  context.globalAlpha = 1;
  for (const row of [...found.map((influence) => influence.row), selected]) map.raise(row);
}

function description(row) {
  return `Row ${ids[row]}, ${page.describe(row)}`;
}

function hover(row) {
  if (row === hovered) return;
  hovered = row;
  canvas.classList.toggle("over", row >= 0);
  map.redraw();
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
      excerpt(hovered) ? name(excerpt(hovered), "div", "name excerpt soft") : null,
      el("div", {}, labelled(labels[hovered], given[hovered] >= 0)),
      el("div", { class: "soft" }, how)));
  const [x, y] = map.toScreen(hovered);
  const left = x + 16 + tip.offsetWidth > map.view.width ? x - 16 - tip.offsetWidth : x + 16;
  const top = Math.min(y + 12, map.view.height - tip.offsetHeight - 6);
  tip.style.left = `${Math.max(4, Math.min(left, map.view.width - tip.offsetWidth - 4))}px`;
  tip.style.top = `${Math.max(4, top)}px`;
}

// ---- The map: pointer and keyboard ----------------------------------------------------------------------------------

const pointers = new Map();
let moved = 0; // pixels since the button went down: a click hardly moves

canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, map.pointOf(event));
  if (pointers.size === 1) moved = 0;
});

canvas.addEventListener("pointermove", (event) => {
  const [x, y] = map.pointOf(event);
  const before = pointers.get(event.pointerId);
  if (!before) {
    hover(map.rowAt(x, y, 12));
    return;
  }
  const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
  pointers.set(event.pointerId, [x, y]);
  moved += Math.hypot(x - before[0], y - before[1]);
  if (moved < 4) return;
  hover(-1);
  canvas.classList.add("dragging");
  map.drag(before, [x, y], other);
});

function endPointer(event) {
  const click = event.type === "pointerup" && pointers.size === 1 && moved < 4;
  pointers.delete(event.pointerId);
  canvas.classList.remove("dragging");
  if (!click) return;
  const row = map.rowAt(...map.pointOf(event), event.pointerType === "touch" ? 22 : 12);
  if (row >= 0) select(row);
  else clear();
}
canvas.addEventListener("pointerup", endPointer);
canvas.addEventListener("pointercancel", endPointer);
canvas.addEventListener("pointerleave", () => hover(-1));

canvas.addEventListener("wheel", (event) => {
  map.turnWheel(event);
  hover(-1);
}, { passive: false });

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

canvas.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const arrow = ARROWS[event.key];
  if (arrow && event.shiftKey) map.pan(-60 * arrow[0], -60 * arrow[1]);
  else if (arrow) step(...arrow);
  else if (event.key === "Enter" || event.key === " ") {
    if (hovered >= 0) select(hovered);
  } else if (event.key === "+" || event.key === "=") map.zoom(1.4);
  else if (event.key === "-") map.zoom(1 / 1.4);
  else if (event.key === "0" || event.key === "Home") map.reset();
  else if (event.key === "Escape") clear();
  else return;
  event.preventDefault();
  showTip();
});

function step(byX, byY) {
  const from = hovered >= 0 ? hovered : selected;
  const { width, height } = map.view;
  const to = from >= 0 ? map.nextRow(from, byX, byY) : map.rowAt(width / 2, height / 2, width + height);
  if (to < 0) return;
  map.bringIntoView(to);
  hover(to);
  announce(description(to));
}

canvas.addEventListener("blur", () => hover(-1));
byId("zoom-in").addEventListener("click", () => map.zoom(1.5));
byId("zoom-out").addEventListener("click", () => map.zoom(1 / 1.5));
byId("zoom-reset").addEventListener("click", () => map.reset());

for (const choice of document.querySelectorAll("input[name=colour]")) {
  choice.after(page.colours[choice.value]);
  choice.checked = choice.value === mode; // browsers restore a choice after a reload
  choice.addEventListener("change", () => {
    mode = choice.value;
    showScale();
    map.repaint({ restyled: true });
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
  map.repaint();
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
  map.bringIntoView(row);
  showDetails();
  for (const button of document.querySelectorAll("[data-row]")) {
    button.setAttribute("aria-current", String(Number(button.dataset.row) === row));
  }
  announce(`${description(row)}; selected`);
  map.redraw();
}

function clear() {
  selected = -1;
  path = null;
  showDetails();
  map.redraw();
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
    ...(cells ? cellTable(row, found.slice(0, CELLS_BESIDE).map((influence) => influence.row)) : []),
    el("h3", {}, page.influences),
    found.length
      ? influenceList(found)
      : el("p", { class: "hint" }, page.noInfluences),
  ].filter(Boolean));
}

const CELLS_BESIDE = 3; // rows whose cells stand beside those of the selected one

function cellTable(row, others) {
  const head = (other) => el("th", { scope: "col" },
    el("button", { type: "button", class: "head", title: ids[other], click: () => select(other) },
      labelled(labels[other], given[other] >= 0), name(ids[other], "div", "name line hint")));
  const cell = (value, at, other) => {
    const same = other !== row && value !== "" && value === cells.values[row][at];
    return name(value || "–", "td", `name line${same ? " same" : ""}${value ? "" : " soft"}`);
  };
  const left = cells.n_left_out ? `${counted(cells.n_left_out, "further column")} not shown. ` : "";
  return [
    el("h3", {}, others.length ? "Cells, beside those of the most influential rows" : "Cells"),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Cells of the row" },
      el("table", { class: "cells" },
        el("thead", {}, el("tr", {}, el("td", {}), el("th", { scope: "col" }, "this row"), ...others.map(head))),
        el("tbody", {}, ...cells.columns.map((column, at) => el("tr", {},
          el("th", { scope: "row" }, name(column, "div", "name line")),
          ...[row, ...others].map((other) => cell(cells.values[other][at], at, other))))))),
    el("p", { class: "hint" }, `${left}${others.length ? "Shaded: the same value as this row." : ""}`),
  ];
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
        excerpt(row) ? name(excerpt(row), "div", "name line hint") : null),
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
  new ResizeObserver(() => map.resize()).observe(canvas);
  map.resize();
  darkScreen.addEventListener("change", restyle);
  addEventListener("beforeprint", () => { printing = true; restyle(); });
  addEventListener("afterprint", () => { printing = false; restyle(); });
}

function restyle() {
  readTheme();
  map.draw();
}

// For tests and the browser's console: the position of a row in CSS pixels of the window, the selected row (-1: none),
// and the selection that a click makes.
window.angpnReport = {
  screenPosition(row) {
    const box = canvas.getBoundingClientRect();
    const [x, y] = map.toScreen(row);
    return { x: box.left + x, y: box.top + y };
  },
  selected: () => selected,
  select,
};
