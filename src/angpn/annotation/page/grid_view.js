// Many rows that are predicted as one class, or lie in one cluster: take the wrong ones out, accept the others at once.
import { announce, counted, el, name, percent, whole } from "./elements.js";
import { content } from "./row_content.js";
import { ClassButtons } from "./class_buttons.js";
import { askNewClass, chooseClass } from "./dialogs.js";
import { read } from "./api.js";
import { on, store } from "./store.js";
import { lost } from "./connection.js";
import * as actions from "./actions.js";

const SHOWN = 60; // rows at once

export class GridView {
  constructor() {
    this.group = null; // {class: name} or {cluster: number}
    this.order = "sure";
    this.rows = [];
    this.out = new Set(); // rows taken out
    this.passed = new Set(); // rows taken out of batches that were accepted: not shown again
    this.at = 0; // the cell that has the keyboard
    this.clusters = [];
    this.giving = false; // labels are on their way
    this.groups = el("select", { id: "grid-group", "aria-label": "Rows to show" });
    this.groups.addEventListener("change", () => {
      this.group = JSON.parse(this.groups.value);
      this.load();
    });
    this.orders = el("div", { class: "segments" }, ...["sure", "doubtful"].map((order) => {
      const radio = el("input", { type: "radio", name: "grid-order", value: order });
      radio.checked = order === this.order;
      radio.addEventListener("change", () => {
        this.order = order;
        this.load();
      });
      return el("label", {}, radio, `${order} first`);
    }));
    this.words = el("p", { class: "hint", id: "grid-words" });
    this.cells = el("div", { class: "cells-grid", role: "group", "aria-label": "Rows",
      "aria-describedby": "grid-words" });
    this.acceptButton = el("button", { type: "button", class: "strong", "aria-keyshortcuts": "Enter",
      click: () => this.accept() });
    this.classes = new ClassButtons((words) => this.give(words), "Label all rows that are in");
    this.element = el("section", { class: "grid-view", "aria-label": "Grid" },
      el("div", { class: "bar" }, el("label", { for: "grid-group", class: "soft" }, "Rows that look like"), this.groups,
        this.orders),
      this.words, this.cells,
      el("div", { class: "grid-foot" }, this.acceptButton,
        el("button", { type: "button", class: "plain", click: () => this.setAll(true) }, "All in"),
        el("button", { type: "button", class: "plain", click: () => this.setAll(false) }, "All out"),
        el("button", { type: "button", class: "plain", click: () => this.newClass() },
          el("kbd", {}, "n"), " All to a new class")),
      this.classes.element);
    on("state", () => this.element.isConnected && this.showState());
    on("undone", () => this.element.isConnected && this.load());
  }

  async open() {
    await this.readClusters();
    this.showGroups();
    this.load();
  }

  async readClusters() {
    if (!store.state.model.mapped || this.clusters.length) return;
    try {
      this.clusters = (await read("api/clusters")).clusters;
    } catch (error) {
      lost(error);
    }
  }

  // Groups may come while the grid is open.
  async showState() {
    await this.readClusters();
    this.showGroups();
  }

  // Classes once there is a model, clusters always.
  showGroups() {
    const { classes, model } = store.state;
    const option = (value, words) => {
      const made = name(words, "option");
      made.value = JSON.stringify(value);
      return made;
    };
    const named = model.version ? classes.map((one) => option({ class: one.name }, one.name)) : [];
    const grouped = this.clusters.map((one) => option({ cluster: one.number },
      `group ${one.number + 1}${one.name ? `: ${one.name}` : ""} (${counted(one.size, "row")})`));
    const values = [...named, ...grouped].map((made) => made.value);
    const wanted = JSON.stringify(this.group);
    if (values.join() !== this.values) {
      this.values = values.join();
      this.groups.replaceChildren(...[["Predicted class", named], ["Group of similar rows", grouped]]
        .filter(([, options]) => options.length).map(([label, options]) => el("optgroup", { label }, ...options)));
      this.groups.value = values.includes(wanted) ? wanted : values[0] ?? "";
      const group = this.groups.value ? JSON.parse(this.groups.value) : null;
      if (JSON.stringify(group) !== wanted) {
        this.group = group;
        if (this.element.isConnected) this.load();
      }
    }
    this.groups.disabled = values.length === 0;
    this.classes.show();
  }

  async load() {
    if (!this.group) {
      this.rows = [];
      this.show("Groups appear as soon as the rows are read and compared.");
      return;
    }
    const group = this.group;
    const count = Math.min(300, SHOWN + this.passed.size);
    try {
      const found = await read("api/grid", { ...group, offset: 0, count, order: this.order });
      if (group !== this.group) return;
      this.rows = found.rows.filter(({ row }) => !this.passed.has(row)).slice(0, SHOWN);
      this.total = found.total;
    } catch (error) {
      lost(error);
      this.rows = [];
      this.show(error.message);
      return;
    }
    this.out.clear();
    this.at = 0;
    const what = group.class !== undefined ? `predicted as ${group.class}` : `in group ${group.cluster + 1}`;
    this.show(this.rows.length
      ? `${whole(this.total)} unlabelled ${this.total === 1 ? "row is" : "rows are"} ${what}; these are ${
        this.rows.length} of them. Take out what does not belong.`
      : `No unlabelled row is ${what}.`);
  }

  show(words) {
    this.words.textContent = words;
    this.cells.replaceChildren(...this.rows.map((row, at) => this.cell(row, at)));
    this.showAccept();
    announce(words);
  }

  cell(row, at) {
    const text = row.guess ? percent(row.guess.confidence) : "";
    return el("button", { type: "button", class: "cell", tabindex: at === this.at ? "0" : "-1", "aria-pressed": "true",
      click: () => { this.move(at); this.toggle(at); } },
      content(row), el("span", { class: "cell-foot" }, name(row.id, "span", "name line"), el("span", {}, text)),
      el("span", { class: "check", "aria-hidden": "true" }));
  }

  toggle(at, inside = this.out.has(this.rows[at]?.row)) {
    const row = this.rows[at];
    if (!row) return;
    if (inside) this.out.delete(row.row);
    else this.out.add(row.row);
    this.cells.children[at].setAttribute("aria-pressed", String(inside));
    this.showAccept();
  }

  setAll(inside) {
    this.rows.forEach((_, at) => this.toggle(at, inside));
  }

  inside() {
    return this.rows.filter(({ row }) => !this.out.has(row)).map(({ row }) => row);
  }

  showAccept() {
    const count = this.inside().length;
    const words = this.group?.class;
    this.acceptButton.hidden = words === undefined;
    this.acceptButton.disabled = count === 0;
    this.acceptButton.replaceChildren(el("kbd", {}, "Enter"), ` Accept ${whole(count)} as `, name(words ?? ""));
  }

  move(to) {
    if (to < 0 || to >= this.rows.length) return;
    this.cells.children[this.at]?.setAttribute("tabindex", "-1");
    this.at = to;
    const cell = this.cells.children[to];
    cell.setAttribute("tabindex", "0");
    cell.focus();
  }

  columns() {
    const tops = [...this.cells.children].map((cell) => cell.offsetTop);
    return Math.max(1, tops.filter((top) => top === tops[0]).length);
  }

  accept() {
    if (this.group?.class !== undefined) this.give(this.group.class);
  }

  async give(words, added = null) {
    const rows = this.inside();
    if (!rows.length || this.giving) return; // a key pressed twice labels once
    this.giving = true;
    this.out.forEach((row) => this.passed.add(row));
    try {
      await added;
      await actions.labelMany(rows, words, "grid");
    } catch {
      // the message was shown
    }
    await this.load();
    this.giving = false;
    if (!document.activeElement || document.activeElement === document.body) this.move(0);
  }

  newClass() {
    if (this.inside().length) {
      askNewClass((words, added) => this.give(words, added), "Its name; all rows that are in are labelled with it.");
    }
  }

  key(key) {
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns(), ArrowDown: this.columns() }[key];
    if (by) {
      const focused = document.activeElement?.classList.contains("cell");
      this.move(focused ? this.at + by : this.at);
    } else if (key === " ") this.toggle(this.at);
    else if (key === "Enter") this.accept();
    else if (key === "n") this.newClass();
    else if (key === "c") chooseClass("Label all rows that are in", (words, added) => this.give(words, added));
    else return this.classes.key(key);
    return true;
  }
}
