// The map: similar rows lie close together. A lasso selects rows, a sample of them is shown, one key labels them all.
import { announce, bytesOf, counted, el, name, whole } from "./elements.js";
import { hueOf, markPicture, shapeOf, swatch } from "./marks.js";
import { PointMap } from "./point_map.js";
import { content } from "./row_content.js";
import { ClassButtons } from "./class_buttons.js";
import { askNewClass, chooseClass } from "./dialogs.js";
import { MapKeys } from "./map_keys.js";
import { read } from "./api.js";
import { classNamed, on, store } from "./store.js";
import { isConnected, lost } from "./connection.js";
import * as actions from "./actions.js";

const SAMPLE = 12;
const NONE = 255; // no class is shown for the row
const [UNLABELLED, LABELLED, OTHER, SKIPPED] = [0, 1, 2, 3];
const APART = 2000; // milliseconds between two reads of the map at least

const WORDS = "Draw around rows to select them; hold Shift to move the map, turn the wheel to zoom. "
  + "By keyboard: arrows move a rectangle, Shift and arrows its size, Enter selects.";

const floats = (text) => new Float32Array(bytesOf(text).buffer);

export class MapView {
  constructor(openRow) {
    this.openRow = openRow;
    this.map = null;
    this.selected = []; // rows
    this.isSelected = new Uint8Array(0);
    this.giving = false; // labels are on their way
    this.path = []; // of the lasso, points of the screen
    this.hovered = -1;
    this.readAt = -Infinity;
    this.canvas = el("canvas", { id: "map", tabindex: "0", role: "application", "aria-describedby": "map-words" });
    this.tip = el("div", { id: "tip", hidden: "" });
    this.words = el("p", { class: "hint", id: "map-words" }, WORDS);
    this.selection = el("div", { class: "selection" });
    this.legend = el("div", { class: "legend" });
    this.classes = new ClassButtons((words) => this.give(words), "Label all selected rows");
    const zoom = (words, label, run) =>
      el("button", { type: "button", class: "plain icon", "aria-label": label, title: label, click: run }, words);
    this.stage = el("div", { class: "map-stage" }, this.canvas, el("div", { class: "zoom" },
      zoom("+", "Zoom in", () => this.map?.zoom(1.5)), zoom("−", "Zoom out", () => this.map?.zoom(1 / 1.5)),
      zoom("⤢", "Show all rows", () => this.map?.reset())), this.tip);
    this.tools = el("div", { class: "segments" }, ...["select", "move"].map((tool) => {
      const radio = el("input", { type: "radio", name: "map-tool", value: tool });
      radio.checked = tool === "select";
      return el("label", {}, radio, tool);
    }));
    this.element = el("section", { class: "map-view", "aria-label": "Map" },
      el("div", { class: "bar" }, el("span", { class: "soft" }, "Drag to"), this.tools, this.legend),
      this.stage, this.words, this.selection, this.classes.element);
    this.keys = new MapKeys(this);
    this.listen();
    on("state", () => this.element.isConnected && this.showClasses());
    on("state", () => this.element.isConnected && this.load());
    on("undone", () => this.element.isConnected && this.load(true));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.restyle());
    new ResizeObserver(() => this.element.isConnected && this.map?.resize()).observe(this.canvas);
  }

  open() {
    this.showSelection();
    this.load(true);
  }

  // Reads the map when labels or the model changed, not more often than every two seconds.
  async load(atOnce = false) {
    const { seq, model } = store.state;
    if (!model.mapped) {
      this.words.textContent = model.error ?? "The map is being computed, and appears here when it is.";
      return;
    }
    const wanted = `${seq}/${model.version}`;
    if (wanted === this.shownFor && !atOnce) return;
    const wait = atOnce ? 0 : this.readAt + APART - performance.now();
    if (wait > 0) {
      this.later ??= setTimeout(() => {
        this.later = null;
        if (this.element.isConnected) this.load();
      }, wait);
      return;
    }
    this.readAt = performance.now();
    this.shownFor = wanted;
    try {
      this.show(await read("api/map"));
    } catch (error) {
      lost(error);
      this.shownFor = null;
      if (!this.map) {
        this.words.textContent = error.message;
        if (isConnected()) setTimeout(() => this.element.isConnected && this.load(true), 1500);
      }
    }
  }

  show({ x, y, code, state, names }) {
    this.code = bytesOf(code);
    this.state = bytesOf(state);
    this.names = names;
    this.hues = names.map((words) => classNamed(words)?.id ?? 0);
    const rank = [0, 2, 1, 1]; // labelled rows last, so that they are not covered
    const order = Uint32Array.from(this.state.keys()).sort((a, b) => rank[this.state[a]] - rank[this.state[b]]);
    if (this.placed !== x + y) { // the places are computed once; colours change often
      this.placed = x + y;
      const rows = { order, shown: () => true, keyOf: (row) => this.keyOf(row), lookOf: (key) => this.lookOf(key) };
      this.map = new PointMap(this.canvas, floats(x), floats(y), rows, (context) => this.overlay(context));
      this.isSelected = new Uint8Array(this.map.count);
      this.selected = [];
      this.restyle();
      this.map.resize();
    }
    this.map.rows.order = order;
    this.words.textContent = WORDS;
    this.canvas.setAttribute("aria-label", `Map of ${whole(this.map.count)} rows: similar rows lie close together`);
    this.showLegend();
    this.restyle();
  }

  // ---- How rows look ----

  keyOf(row) {
    const dim = this.selected.length > 0 && !this.isSelected[row];
    return (this.code[row] * 4 + this.state[row]) * 2 + (dim ? 1 : 0);
  }

  lookOf(key) {
    const dim = key % 2 === 1;
    const state = (key >> 1) % 4;
    const code = key >> 3;
    const ringed = state === LABELLED;
    if (state === OTHER) return { shape: 5, fill: dim ? this.theme.dim : this.theme.soft, ringed: false };
    if (code === NONE || state === SKIPPED) return { shape: 0, fill: this.theme.dim, ringed: false };
    const number = this.hues[code];
    const fill = dim ? this.theme.dim : this.theme.hues[hueOf(number)];
    return { shape: shapeOf(number), fill, ringed: ringed && !dim };
  }

  restyle() {
    if (!this.map) return;
    const style = getComputedStyle(document.documentElement);
    const colour = (key) => style.getPropertyValue(`--${key}`).trim();
    this.theme = { ink: colour("ink"), panel: colour("panel"), dim: colour("dim"), soft: colour("soft"),
      accent: colour("accent"), hues: Array.from({ length: 10 }, (_, at) => colour(`hue-${at}`)) };
    this.map.theme = this.theme;
    this.map.repaint({ restyled: true });
  }

  showLegend() {
    const key = (mark, words) => el("span", { class: "key soft" }, mark, words);
    this.legend.replaceChildren(key(markPicture(0, "var(--dim)", true), "labelled"),
      key(markPicture(0, "var(--dim)", false), "not yet"), key(markPicture(5, "var(--soft)", false), "none of these"));
  }

  overlay(context) {
    const outline = this.path.length > 1 ? this.path : this.keys.corners();
    if (outline.length) {
      context.beginPath();
      outline.forEach(([x, y], at) => (at ? context.lineTo(x, y) : context.moveTo(x, y)));
      context.closePath();
      context.fillStyle = `color-mix(in srgb, ${this.theme.accent} 14%, transparent)`;
      context.fill();
      for (const [colour, thickness, dash] of [[this.theme.panel, 3, []], [this.theme.ink, 1.5, [6, 4]]]) {
        context.strokeStyle = colour;
        context.lineWidth = thickness;
        context.setLineDash(dash);
        context.stroke();
      }
      context.setLineDash([]);
    }
    if (this.hovered >= 0) this.map.ring(this.hovered, 1.5);
  }

  // ---- Pointer ----

  listen() {
    const { canvas } = this;
    const pointers = new Map();
    let draws = false;
    let moved = 0;
    const moves = (event) => event.shiftKey || event.button === 1
      || this.tools.querySelector("[value=move]").checked;
    canvas.addEventListener("pointerdown", (event) => {
      if (!this.map) return;
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, this.map.pointOf(event));
      if (pointers.size === 1) moved = 0;
      draws = pointers.size === 1 && !moves(event);
      this.path = draws ? [this.map.pointOf(event)] : [];
      this.keys.drop();
      this.hover(-1);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.map) return;
      const now = this.map.pointOf(event);
      const before = pointers.get(event.pointerId);
      if (!before) {
        this.hover(this.map.rowAt(...now, 10));
        return;
      }
      const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
      pointers.set(event.pointerId, now);
      moved += Math.hypot(now[0] - before[0], now[1] - before[1]);
      if (draws) {
        this.path.push(now);
        this.map.redraw();
      } else if (moved > 3) this.map.drag(before, now, other);
    });
    const end = (event) => {
      const ended = pointers.delete(event.pointerId);
      if (!ended || !this.map) return;
      const path = this.path;
      this.path = [];
      if (event.type !== "pointerup") this.map.redraw();
      else if (moved < 4) this.click(event);
      else if (draws && path.length > 2) this.select(this.map.rowsInside(path));
      draws = false;
    };
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
    canvas.addEventListener("pointerleave", () => this.hover(-1));
    canvas.addEventListener("wheel", (event) => {
      this.map?.turnWheel(event);
      this.hover(-1);
    }, { passive: false });
  }

  click(event) {
    const row = this.map.rowAt(...this.map.pointOf(event), event.pointerType === "touch" ? 22 : 10);
    this.select(row >= 0 ? [row] : []);
  }

  hover(row) {
    if (row === this.hovered) return;
    this.hovered = row;
    this.map?.redraw();
    clearTimeout(this.tipLater);
    this.tip.hidden = true;
    if (row >= 0) this.tipLater = setTimeout(() => this.showTip(row), 120);
  }

  async showTip(row) {
    let found;
    try {
      found = await read(`api/rows/${row}`);
    } catch (error) {
      lost(error);
      return;
    }
    if (row !== this.hovered) return;
    const words = found.label ?? (found.other ? "none of these" : found.guess ? `guess: ${found.guess.name}` : "");
    this.tip.replaceChildren(content(found), el("div", {}, name(found.id, "div", "name line"),
      name(words, "div", "name line soft")));
    this.tip.hidden = false;
    const { width, height } = this.map.view;
    const [x, y] = this.map.toScreen(row);
    const left = x + 16 + this.tip.offsetWidth > width ? x - 16 - this.tip.offsetWidth : x + 16;
    this.tip.style.left = `${Math.max(4, left)}px`;
    this.tip.style.top = `${Math.max(4, Math.min(y + 12, height - this.tip.offsetHeight - 6))}px`;
  }

  // ---- Selection ----

  select(rows) {
    this.selected = rows;
    this.isSelected.fill(0);
    for (const row of rows) this.isSelected[row] = 1;
    this.map.repaint({ restyled: true });
    this.showSelection();
  }

  // Rows that get a label: those that have none.
  withoutLabel() {
    return this.selected.filter((row) => this.state[row] === UNLABELLED || this.state[row] === SKIPPED);
  }

  // There is nothing to press while no row would get a label.
  showClasses() {
    this.classes.show();
    if (!this.map || !this.withoutLabel().length) this.classes.element.hidden = true;
  }

  async showSelection() {
    const open = this.map ? this.withoutLabel() : [];
    this.showClasses();
    if (!this.selected.length) {
      this.selection.replaceChildren();
      return;
    }
    const had = this.selected.length - open.length;
    const words = `${counted(this.selected.length, "row")} selected${had
      ? `; ${whole(had)} of them ${had === 1 ? "has" : "have"} a label and ${had === 1 ? "keeps" : "keep"} it` : ""}`;
    const sample = el("ul", { class: "sample", "aria-label": "A sample of the selected rows" });
    this.selection.replaceChildren(el("div", { class: "selection-head" },
      el("h3", {}, words, open.length ? ". Label them all:" : "."), this.shares(open),
      el("button", { type: "button", class: "plain", click: () => this.newClass() }, el("kbd", {}, "n"), " New class"),
      el("button", { type: "button", class: "plain", click: () => this.select([]) }, el("kbd", {}, "Esc"), " None")),
    sample);
    announce(words);
    const pool = open.length ? open : this.selected;
    const step = Math.max(1, pool.length / SAMPLE); // spread over the selection
    const rows = Array.from({ length: Math.min(SAMPLE, pool.length) }, (_, at) => pool[Math.floor(at * step)]);
    try {
      const found = await read("api/rows", { rows: rows.join() });
      sample.replaceChildren(...found.rows.map((row) => el("li", {}, el("button", { type: "button", class: "sampled",
        title: "Open this row", click: () => this.openRow(row.row) }, content(row),
        name(row.id, "span", "name line")))));
    } catch (error) {
      lost(error);
    }
  }

  // What the model says of the selected rows, the three largest classes.
  shares(rows) {
    const counts = new Map();
    for (const row of rows) {
      if (this.code[row] !== NONE) counts.set(this.code[row], (counts.get(this.code[row]) ?? 0) + 1);
    }
    const largest = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 3);
    const share = ([code, count]) => el("span", { class: "tag" }, swatch(this.hues[code]),
      name(this.names[code], "span", "name line"), whole(count));
    return el("span", { class: "shares hint" }, ...(largest.length ? ["guessed:"] : []), ...largest.map(share));
  }

  async give(words, added = null) {
    const rows = this.withoutLabel();
    if (!rows.length || this.giving) return; // a key pressed twice labels once
    this.giving = true;
    try {
      await added;
      await actions.labelMany(rows, words, "map");
      this.select([]);
      this.load(true);
    } catch {
      // the message was shown
    } finally {
      this.giving = false;
    }
  }

  newClass() {
    if (this.withoutLabel().length) {
      askNewClass((words, added) => this.give(words, added), "Its name; all selected rows are labelled with it.");
    }
  }

  key(key, event) {
    if (this.map && this.keys.press(key, event)) return true;
    if (key === "Escape") this.select([]);
    else if (key === "n") this.newClass();
    else if (key === "c") chooseClass("Label all selected rows", (words, added) => this.give(words, added));
    else return this.classes.key(key);
    return true;
  }
}
