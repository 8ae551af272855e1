// Labels to look at again: those that the model finds improbable, and rows that two people labelled differently.
import { announce, el, name, percent } from "./elements.js";
import { content } from "./row_content.js";
import { ClassButtons } from "./class_buttons.js";
import { chooseClass } from "./dialogs.js";
import { neighbors, tag, verb } from "./label_view.js";
import { read } from "./api.js";
import { on, store } from "./store.js";
import { lost } from "./connection.js";
import * as actions from "./actions.js";

const KINDS = {
  suspects: { title: "Suspected errors", none: "No label looks wrong to the model." },
  disagreements: { title: "Disagreements", none: "No two people labelled a row differently." },
};

export class ReviewView {
  constructor() {
    this.kind = "suspects";
    this.rows = [];
    this.at = 0;
    this.tabs = el("div", { class: "segments" }, ...Object.entries(KINDS).map(([kind, { title }]) => {
      const radio = el("input", { type: "radio", name: "review", value: kind });
      radio.checked = kind === this.kind;
      radio.addEventListener("change", () => {
        this.kind = kind;
        this.load();
      });
      return el("label", {}, radio, `${title} `, el("span", { class: "count" }));
    }));
    this.head = el("div", { class: "row-head" });
    this.stage = el("div", { class: "stage" });
    this.words = el("div", { class: "guess" });
    this.near = el("div");
    this.classes = new ClassButtons((words) => this.give(words), "Give another label");
    this.commands = el("div", { class: "commands" }, el("button",
      { type: "button", class: "plain command", "aria-keyshortcuts": "x", click: () => this.give(null) },
      el("kbd", {}, "x"), el("span", {}, "None of these")));
    this.element = el("section", { class: "review-view", "aria-label": "Review" },
      el("div", { class: "bar" }, this.tabs), this.head, this.stage, this.words, this.classes.element, this.commands,
      this.near);
    on("state", () => this.element.isConnected && this.showState());
    on("undone", () => this.element.isConnected && this.load());
  }

  get current() {
    return this.rows[this.at] ?? null;
  }

  open() {
    if (!store.state.suspects && store.state.disagreements) this.kind = "disagreements";
    this.tabs.querySelector(`[value=${this.kind}]`).checked = true;
    this.load();
  }

  async load() {
    const kind = this.kind;
    try {
      const { rows } = await read(`api/${kind}`);
      if (kind !== this.kind) return;
      this.rows = rows;
    } catch (error) {
      lost(error);
      this.rows = [];
    }
    this.at = 0;
    this.show();
  }

  show() {
    const row = this.current;
    const near = row && neighbors(row);
    this.head.replaceChildren(...(row ? [name(row.id, "h2", "name line"),
      el("span", { class: "hint" }, `${this.at + 1} of ${this.rows.length}`)] : []));
    this.stage.replaceChildren(row ? content(row, true) : el("p", { class: "soft" }, KINDS[this.kind].none));
    this.words.replaceChildren(...(row ? this.question(row) : []));
    this.near.replaceChildren(...(near ? [near] : []));
    this.showState();
    announce(row ? `Row ${row.id}. ${this.words.textContent}` : this.stage.textContent);
  }

  question(row) {
    if (this.kind === "disagreements") {
      return [el("span", {}, "Labelled"), ...Object.entries(row.votes ?? {}).map(([user, words]) =>
        el("span", { class: "vote" }, words === null ? "none of these" : tag(words), el("span", { class: "soft" }, "by ", name(user)))),
        el("span", { class: "soft" }, "Press the key of the right class.")];
    }
    const keep = el("button",
      { type: "button", class: "accept", "aria-keyshortcuts": "Enter", click: () => this.keep() },
      el("kbd", {}, "Enter"), ...verb("keeps", "Keep"), tag(row.label ?? ""));
    const says = row.guess && row.guess.name !== row.label
      ? [el("span", { class: "soft" }, "The model says"), tag(row.guess.name),
        el("span", { class: "number" }, percent(row.guess.confidence))] : [];
    return [keep, ...says];
  }

  showState() {
    Object.keys(KINDS).forEach((kind, at) => {
      this.tabs.children[at].querySelector(".count").textContent = store.state[kind];
    });
    const row = this.current;
    const guess = row?.guess && row.guess.name !== row.label ? row.guess : null;
    this.classes.show({ chosen: row?.label ?? null, guess });
    if (!row) this.classes.element.hidden = true;
    this.commands.hidden = !row;
  }

  keep() {
    if (!this.current || this.kind !== "suspects") return;
    actions.keep(this.current);
    this.drop();
  }

  // Gives the row a class, or with null none of them.
  give(words) {
    const row = this.current;
    if (!row) return;
    if (this.kind === "disagreements") actions.settle(row, words);
    else if (words === null) actions.other(row);
    else actions.label(row, words);
    this.drop();
  }

  drop() {
    this.rows.splice(this.at, 1);
    this.at = Math.min(this.at, Math.max(0, this.rows.length - 1));
    this.show();
  }

  go(by) {
    this.at = Math.max(0, Math.min(this.rows.length - 1, this.at + by));
    this.show();
  }

  key(key) {
    const run = { Enter: () => this.keep(), ArrowLeft: () => this.go(-1), ArrowRight: () => this.go(1),
      x: () => this.give(null),
      c: () => this.current && chooseClass("Give another label", (words) => this.give(words)) }[key];
    if (!run) return this.classes.key(key);
    run();
    return true;
  }
}
