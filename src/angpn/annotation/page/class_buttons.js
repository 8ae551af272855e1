// The classes as buttons with their keys: for one row, for a grid or for a selection on the map.
import { el, name, percent, whole } from "./elements.js";
import { swatch } from "./marks.js";
import { store } from "./store.js";

export class ClassButtons {
  // `choose(name)` is called with the class that was pressed.
  constructor(choose, words) {
    this.choose = choose;
    this.element = el("div", { class: "classes", role: "group", "aria-label": words });
    this.signature = null;
  }

  // `guess` is marked, and so is `chosen`, the label that the row has. Buttons stay the same elements while the
  // classes do, so that focus stays.
  show({ guess = null, chosen = null } = {}) {
    const { classes } = store.state;
    const signature = JSON.stringify(classes.map(({ id, name: words, key }) => [id, words, key]));
    if (signature !== this.signature) {
      this.signature = signature;
      this.buttons = classes.map((one) => this.button(one));
      this.element.replaceChildren(...this.buttons);
    }
    classes.forEach((one, at) => {
      const button = this.buttons[at];
      const isGuess = guess !== null && guess.name === one.name;
      button.classList.toggle("guessed", isGuess);
      button.setAttribute("aria-pressed", String(chosen === one.name));
      const count = button.querySelector(".count");
      if (isGuess) count.replaceChildren(el("span", { class: "word" }, "guess "), percent(guess.confidence));
      else count.textContent = whole(one.count);
      count.title = isGuess ? "confidence of the guess" : "labelled rows";
    });
    this.element.hidden = classes.length === 0;
  }

  button(one) {
    return el("button", { type: "button", class: "class", "aria-keyshortcuts": one.key,
      click: () => this.choose(one.name) },
      el("kbd", {}, one.key ?? "·"), swatch(one.id), name(one.name, "span", "name line"),
      el("span", { class: "count" }));
  }

  // Returns whether the key was that of a class.
  key(key) {
    const one = store.state.classes.find((candidate) => candidate.key === key);
    if (one) this.choose(one.name);
    return one !== undefined;
  }
}
