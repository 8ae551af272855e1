// Search by id or text; a row that is found opens large, and can be labelled or labelled anew.
import { announce, counted, el, name } from "./elements.js";
import { content } from "./row_content.js";
import { tag } from "./label_view.js";
import { openDialog } from "./dialogs.js";
import { read } from "./api.js";
import { lost } from "./connection.js";

const PAUSE = 200; // milliseconds without a key before the server is asked

export function openSearch(openRow) {
  const field = el("input", { type: "search", id: "query", autocomplete: "off", spellcheck: "false", dir: "auto",
    "aria-label": "Id or text" , placeholder: "Id or text" });
  const words = el("p", { class: "hint", role: "status" });
  const list = el("ul", { class: "results" });
  const dialog = openDialog("Search", el("form", { method: "dialog", role: "search" }, field), words, list);
  let timer = null;
  let asked = null;
  const open = (row) => {
    dialog.close();
    openRow(row);
  };
  const entry = (row) => el("li", {}, el("button", { type: "button", class: "result", click: () => open(row.row) },
    content(row), el("span", { class: "who" }, name(row.id, "span", "name line"),
      row.label !== null ? tag(row.label) : el("span", { class: "hint" },
        row.other ? "none of these" : row.skipped ? "skipped" : "not labelled"))));
  const search = async () => {
    const text = field.value.trim();
    asked = text;
    if (!text) {
      list.replaceChildren();
      words.textContent = "";
      return;
    }
    try {
      const { total, rows } = await read("api/search", { q: text });
      if (asked !== text) return;
      list.replaceChildren(...rows.map(entry));
      words.textContent = total > rows.length ? `${counted(total, "row")} found, the first ${rows.length} are shown`
        : `${counted(total, "row")} found`;
      announce(words.textContent);
    } catch (error) {
      lost(error);
      words.textContent = error.message;
    }
  };
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, PAUSE);
  });
  dialog.addEventListener("keydown", (event) => {
    const buttons = [...list.querySelectorAll("button")];
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by || !buttons.length) return;
    event.preventDefault();
    const at = buttons.indexOf(document.activeElement) + by;
    (at < 0 ? field : buttons[Math.min(at, buttons.length - 1)]).focus();
  });
  field.closest("form").addEventListener("submit", async (event) => { // Enter opens the first
    event.preventDefault();
    clearTimeout(timer);
    await search();
    list.querySelector("button")?.click();
  });
}
