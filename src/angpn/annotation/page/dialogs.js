// Dialogs: one open at a time, closed by Escape; focus returns to where it was.
import { el, name, whole } from "./elements.js";
import { swatch } from "./marks.js";
import { HELP } from "./keys.js";
import { setUser, store, refresh } from "./store.js";
import { complain, toast } from "./toasts.js";
import * as actions from "./actions.js";

export function openDialog(title, ...content) {
  const before = document.activeElement;
  const dialog = el("dialog", { "aria-labelledby": "dialog-title" },
    el("div", { class: "dialog-head" },
      el("h2", { id: "dialog-title" }, title),
      el("button", { type: "button", class: "plain icon", "aria-label": "Close", click: () => dialog.close() }, "✕")),
    ...content);
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (before?.isConnected) before.focus({ preventScroll: true });
  });
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close()); // beside it
  document.body.append(dialog);
  dialog.showModal();
  dialog.querySelector("input")?.focus();
  return dialog;
}

// Asks for one line of text; `accept(text)` is called with it, trimmed and not empty.
export function ask(title, words, button, accept, value = "") {
  const field = el("input", { type: "text", id: "asked", maxlength: 200, autocomplete: "off", value, dir: "auto" });
  const form = el("form", { method: "dialog", class: "ask" },
    el("label", { for: "asked", class: "soft" }, words), field,
    el("button", { type: "submit", class: "strong" }, button));
  const dialog = openDialog(title, form);
  field.select();
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = field.value.trim();
    if (!text) {
      field.focus();
      return;
    }
    dialog.close();
    accept(text);
  });
}

export const askNewClass = (accept, words = "Its name; the row on screen is labelled with it.") =>
  ask("New class", words, "Add class", (text) => {
    const found = store.state.classes.find((one) => one.name === text);
    if (found) accept(text, null); // it is there already
    else accept(text, actions.addClass(text));
  });

// Finds a class by the letters of its name; a name that no class has becomes a new one.
export function chooseClass(title, accept) {
  const field = el("input", { type: "text", id: "wanted", autocomplete: "off", role: "combobox", dir: "auto",
    "aria-label": "Name of the class", "aria-expanded": "true", "aria-controls": "found",
    "aria-autocomplete": "list" });
  const list = el("ul", { class: "found", id: "found", role: "listbox", "aria-label": "Classes" });
  const dialog = openDialog(title, el("form", { method: "dialog", class: "choose" }, field, list));
  let found = [];
  let at = 0;
  const finish = () => {
    const text = field.value.trim();
    const chosen = found[at]?.name ?? text;
    if (!chosen) return;
    dialog.close();
    accept(chosen, found[at] ? null : actions.addClass(text));
  };
  const show = () => {
    const wanted = field.value.trim().toLowerCase();
    found = store.state.classes.filter((one) => one.name.toLowerCase().includes(wanted))
      .sort((a, b) => b.name.toLowerCase().startsWith(wanted) - a.name.toLowerCase().startsWith(wanted));
    at = Math.min(at, Math.max(0, found.length - 1));
    list.replaceChildren(...found.map((one, place) => el("li", { role: "option", id: `found-${place}`,
      "aria-selected": String(place === at), click: () => { at = place; finish(); } },
      swatch(one.id), name(one.name, "span", "name line"), el("span", { class: "count" }, whole(one.count)))));
    if (!found.length && wanted) {
      list.append(el("li", { role: "option", "aria-selected": "true", click: finish },
        "New class: ", name(field.value.trim())));
    }
    field.setAttribute("aria-activedescendant", found.length ? `found-${at}` : "");
    list.children[at]?.scrollIntoView({ block: "nearest" });
  };
  field.addEventListener("input", () => { at = 0; show(); });
  field.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by || !found.length) return;
    event.preventDefault();
    at = (at + by + found.length) % found.length;
    show();
  });
  list.closest("form").addEventListener("submit", (event) => {
    event.preventDefault();
    finish();
  });
  show();
}

// Rename and merge. A renamed class keeps its key; of two merged ones the rows go to the other.
export function editClasses() {
  const list = el("ul", { class: "edit-classes" });
  const run = async (promise) => {
    try {
      await promise;
    } catch {
      // the message was shown
    }
    show();
  };
  const entry = (one) => {
    const others = store.state.classes.filter(({ id }) => id !== one.id);
    const into = el("select", { "aria-label": `Merge ${one.name} into` },
      el("option", { value: "" }, "merge into …"), ...others.map((other) => name(other.name, "option")));
    [...into.options].slice(1).forEach((option, at) => { option.value = String(at); });
    into.disabled = others.length === 0;
    into.addEventListener("change", () =>
      into.value && run(actions.mergeClass(one.name, others[Number(into.value)].name)));
    const field = el("input", { type: "text", value: one.name, maxlength: 200, dir: "auto",
      "aria-label": `Name of the class ${one.name}` });
    const rename = () => {
      const to = field.value.trim();
      if (to && to !== one.name) run(actions.renameClass(one.name, to));
      else field.value = one.name;
    };
    field.addEventListener("change", rename);
    const count = el("span", { class: "count", title: "labelled rows" }, whole(one.count));
    return el("li", {}, swatch(one.id), field, count, into);
  };
  const show = () => {
    if (!list.isConnected && list.childElementCount) return;
    list.replaceChildren(...store.state.classes.map(entry));
  };
  const add = el("button", { type: "button", class: "plain", click: () => {
    dialog.close();
    askNewClass(() => {}, "Its name; rows can be labelled with it at once.");
  } }, "New class");
  show();
  const none = store.state.classes.length ? null : el("p", { class: "soft" }, "There is no class yet.");
  const dialog = openDialog("Classes", ...[none, list, el("div", { class: "dialog-foot" },
    add, el("p", { class: "hint" }, "Change a name and press Enter. Both can be undone with u."))].filter(Boolean));
}

export function showHelp() {
  const keys = (text) => el("dt", {}, ...text.split(" ").map((key) =>
    (/^[a-z?/←→+−0]$|^(Enter|Space|Esc|Shift|Backspace)$/i.test(key) ? el("kbd", {}, key) : `${key} `)));
  openDialog("Keys", el("div", { class: "help" }, ...Object.entries(HELP).map(([title, entries]) =>
    el("section", {}, el("h3", {}, title), el("dl", {}, ...entries.flatMap(([key, words]) =>
      [keys(key), el("dd", {}, words)]))))));
}

export function askUser() {
  ask("Who labels here?", "Your name, kept with your labels. Undo takes back your own actions only.", "That is me",
    (text) => {
      setUser(text);
      refresh().then(() => toast(`Labels are now given by ${text}.`), complain);
    }, store.user ?? store.state.user ?? "");
}
