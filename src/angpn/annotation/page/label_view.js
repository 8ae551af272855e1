// One row large: what it is, what the model guesses, and the classes on keys.
import { announce, el, meter, name, percent } from "./elements.js";
import { markPicture, swatch } from "./marks.js";
import { content } from "./row_content.js";
import { ClassButtons } from "./class_buttons.js";
import { askNewClass, chooseClass } from "./dialogs.js";
import { classNamed, on, store } from "./store.js";
import { queue } from "./queue.js";
import { isConnected } from "./connection.js";
import * as actions from "./actions.js";

export const tag = (words) => {
  const one = classNamed(words);
  return el("span", { class: "tag" }, one ? swatch(one.id) : markPicture(0, "var(--dim)", false),
    name(words, "span", "name line"));
};

// What a key does, and on screens without keys what a touch does.
export const verb = (ofKey, ofTouch) =>
  [el("span", { class: "soft of-key" }, ofKey), el("span", { class: "soft of-touch" }, ofTouch)];

// The labelled rows nearest to this one.
export function neighbors(row) {
  if (!row.neighbors?.length) return null;
  return el("section", { class: "neighbors", "aria-label": "Nearest labelled rows" },
    el("h3", { class: "soft" }, "Nearest labelled rows"),
    el("ul", {}, ...row.neighbors.map((near) => el("li", {}, content(near), tag(near.label)))));
}

export class LabelView {
  constructor(openView) {
    this.openView = openView;
    this.classes = new ClassButtons((words) => this.label(words), "Label the row");
    this.head = el("div", { class: "row-head" });
    this.stage = el("div", { class: "stage", id: "stage" });
    this.guess = el("div", { class: "guess", id: "guess" });
    this.near = el("div");
    this.first = this.firstClass();
    this.buttons = {
      back: this.command("←", "Back", () => this.back()),
      undo: this.command("u", "Undo", () => actions.undo()),
      redo: this.command("⇧u", "Redo", () => actions.redo()),
      skip: this.command("s", "Skip", () => this.skip()),
      other: this.command("x", "None of these", () => this.other()),
      choose: this.command("c", "Choose", () => this.chooseClass()),
      add: this.command("n", "New class", () => this.newClass()),
    };
    this.element = el("section", { class: "label-view", "aria-label": "Label" },
      this.head, this.stage, this.guess, this.first, this.classes.element,
      el("div", { class: "commands", role: "group", "aria-label": "Commands" }, ...Object.values(this.buttons)),
      this.near);
    on("row", () => this.showRow());
    on("state", () => this.showState());
  }

  command(key, words, run) {
    return el("button", { type: "button", class: "plain command", click: (event) => {
      run();
      if (event.detail > 0) event.currentTarget.blur(); // after a click Enter accepts a guess again
    } }, el("kbd", {}, key), el("span", {}, words));
  }

  firstClass() {
    const field = el("input", { type: "text", id: "first-class", maxlength: 200, autocomplete: "off", dir: "auto",
      placeholder: "for instance: cat" });
    const made = el("form", { class: "first-class", hidden: "" },
      el("label", { for: "first-class" }, "What is this? Name its class:"), field,
      el("button", { type: "submit", class: "strong" }, "Label it"),
      el("p", { class: "hint" }, "You add classes as you meet them. Or look at ",
        el("button", { type: "button", class: "link", click: () => this.openView("grid") }, "groups of similar rows"),
        " and name those."));
    field.addEventListener("keydown", (event) => event.key === "Escape" && field.blur()); // for the keys of the page
    made.addEventListener("submit", (event) => {
      event.preventDefault();
      const text = field.value.trim();
      if (!text || !queue.current) return;
      field.value = "";
      field.blur(); // keys are commands again, before the server has answered
      this.labelNew(text, actions.addClass(text));
    });
    return made;
  }

  // ---- What is shown ----

  showRow() {
    const row = queue.current;
    if (row) {
      this.stage.replaceChildren(content(row, true));
      this.stage.scrollTop = 0;
      const near = neighbors(row);
      this.near.replaceChildren(...(near ? [near] : []));
      this.head.replaceChildren(name(row.id, "h2", "name line"),
        ...(row.reason ? [el("span", { class: "reason hint" }, row.reason)] : []));
    } else {
      this.head.replaceChildren();
      this.near.replaceChildren();
      this.stage.replaceChildren(this.nothing());
    }
    this.showState();
    announce(row ? `Row ${row.id}. ${this.guess.textContent}` : this.stage.textContent);
  }

  nothing() {
    if (!isConnected()) return el("p", { class: "soft" }, "Waiting for the server …");
    if (!queue.isEmpty) return el("p", { class: "soft" }, "Loading the next rows …");
    return el("div", { class: "finished" },
      el("h2", {}, "No row is left to label"),
      el("p", { class: "soft" }, "All rows are labelled, skipped or with somebody else at this moment. ",
        "Write the results, or look at the suspected errors in the review."));
  }

  showState() {
    const row = queue.current;
    const { state } = store;
    this.showGuess(row);
    this.askFirstClass(state.classes.length === 0 && row !== null);
    this.classes.show({ guess: row && !this.isAnswered(row) ? row.guess : null, chosen: row?.label ?? null });
    this.buttons.back.disabled = queue.at <= 0;
    this.buttons.undo.disabled = !state.undo;
    this.buttons.undo.title = state.undo ? `Undo: ${state.undo}` : "Nothing to undo";
    this.buttons.redo.disabled = state.redo === null;
    for (const key of ["skip", "other", "choose", "add"]) this.buttons[key].disabled = !row;
  }

  // Where there is no class yet, what a person types is the name of one; on a phone a keyboard would cover the row.
  askFirstClass(asked) {
    const isNew = asked && this.first.hidden;
    this.first.hidden = !asked;
    if (isNew && this.element.isConnected && document.activeElement === document.body && matchMedia("(hover)").matches) {
      this.first.querySelector("input").focus({ preventScroll: true });
    }
  }

  isAnswered(row) {
    return row.label !== null || row.other || row.skipped;
  }

  showGuess(row) {
    const parts = [];
    if (row && row.label !== null) {
      parts.push(el("span", {}, "Labelled"), tag(row.label),
        el("button", { type: "button", class: "link", click: () => this.clear() }, "remove"));
    } else if (row?.other) parts.push(el("span", {}, "Labelled: none of these"));
    else if (row?.skipped) parts.push(el("span", {}, "Skipped"));
    else if (row?.audit) {
      parts.push(el("span", { class: "badge" }, "Audit"), el("span", { class: "soft" },
        "The guess is hidden, so that it does not sway you: this row was drawn at random to measure accuracy."));
    } else if (row?.guess) {
      const { guess } = row;
      parts.push(
        el("button", { type: "button", class: "accept", "aria-keyshortcuts": "Enter", click: () => this.accept() },
          el("kbd", {}, "Enter"), ...verb("accepts", "Accept"), tag(guess.name)),
        meter(guess.confidence), el("span", { class: "number" }, percent(guess.confidence)));
      if (guess.second) parts.push(el("span", { class: "soft" }, "or"), tag(guess.second));
    } else if (row && store.state.classes.length === 1) {
      // Who typed the name of the first class may type that of the second, and each letter would be a command.
      parts.push(el("span", {}, "Of another class? Press ", el("kbd", {}, "n"), " first, then type its name."));
    } else if (row && store.state.classes.length) {
      parts.push(el("span", { class: "soft" }, store.state.model.version
        ? "No guess for this row." : "No guess yet: the model learns from the first labels."));
    }
    this.guess.replaceChildren(...parts);
  }

  // ---- What a person does ----

  label(words) {
    if (!queue.current) return;
    actions.label(queue.current, words);
    this.next();
  }

  // Labels with a class that is being added; if the server refuses the class, the row is shown again.
  labelNew(words, added) {
    const row = queue.current;
    if (added) added.catch(() => queue.show(row.row));
    this.label(words);
  }

  next() {
    queue.next();
    if (document.activeElement?.closest(".label-view .class")) document.activeElement.blur();
  }

  accept() {
    const row = queue.current;
    if (row?.guess && !this.isAnswered(row)) this.label(row.guess.name);
    else if (row && this.isAnswered(row)) queue.next();
  }

  skip() {
    if (!queue.current) return;
    actions.skip(queue.current);
    this.next();
  }

  other() {
    if (!queue.current) return;
    actions.other(queue.current);
    this.next();
  }

  clear() {
    if (!queue.current || !this.isAnswered(queue.current)) return;
    actions.clear(queue.current);
    this.showRow();
  }

  back() {
    queue.back();
  }

  newClass() {
    if (queue.current) askNewClass((words, added) => this.labelNew(words, added));
  }

  chooseClass() {
    if (queue.current) chooseClass("Label the row", (words, added) => this.labelNew(words, added));
  }

  open() {
    this.first.hidden = true; // so that it gets the keyboard again if it is asked
    this.showRow();
  }

  key(key) {
    const run = { Enter: () => this.accept(), s: () => this.skip(), x: () => this.other(), n: () => this.newClass(),
      c: () => this.chooseClass(), ArrowLeft: () => this.back(), ArrowRight: () => queue.current && queue.next(),
      Backspace: () => this.clear() }[key];
    if (!run) return this.classes.key(key);
    run();
    return true;
  }
}
