// Starts the page: views, tools and keys.
import { byId, el, name } from "./elements.js";
import { RequestError, storage, tab } from "./api.js";
import { on, refresh, store } from "./store.js";
import { takeUpUnsent } from "./outbox.js";
import { lost, startEvents } from "./connection.js";
import { queue } from "./queue.js";
import { listen } from "./keys.js";
import { askUser, editClasses, showHelp } from "./dialogs.js";
import { openSearch } from "./search.js";
import { toast } from "./toasts.js";
import { LabelView } from "./label_view.js";
import { GridView } from "./grid_view.js";
import { MapView } from "./map_view.js";
import { ReviewView } from "./review_view.js";
import { ProgressPanel } from "./progress_panel.js";
import { redo, undo } from "./actions.js";

const TITLES = { label: ["l", "Label"], grid: ["g", "Grid"], map: ["m", "Map"], review: ["r", "Review"] };
let views = {};
let shown = null;
let panel = null;

function openView(kind) {
  if (shown === kind) return;
  shown = kind;
  storage.set(tab, "angpn-view", kind);
  byId("main").replaceChildren(views[kind].element);
  for (const button of byId("views").children) {
    button.setAttribute("aria-current", button.dataset.view === kind ? "page" : "false");
  }
  views[kind].open();
}

async function openRow(row) {
  await queue.show(row);
  openView("label");
}

function showHead() {
  const { title, user, undo: last } = store.state;
  document.title = `${title} – angpn annotate`;
  byId("title").textContent = title;
  byId("title").title = title;
  byId("undo").disabled = !last;
  byId("undo").title = last ? `Undo: ${last}` : "Nothing to undo";
  byId("user").replaceChildren(el("span", { class: "hidden-text" }, "Labels are given by "),
    name(store.user ?? user ?? "who?", "span", "name line"));
}

function build() {
  views = { label: new LabelView(openView), grid: new GridView(), map: new MapView(openRow), review: new ReviewView() };
  panel = new ProgressPanel(openView);
  byId("views").replaceChildren(...Object.entries(TITLES).map(([kind, [key, title]]) =>
    el("button", { type: "button", "data-view": kind, "aria-keyshortcuts": key, click: () => openView(kind) },
      title, el("kbd", {}, key))));
  const tool = (key, words, run, more = {}) => el("button", { type: "button", class: "plain", click: run, ...more },
    words, ...(key ? [el("kbd", {}, key)] : []));
  byId("tools").replaceChildren(
    tool(null, "↶", undoByClick, { id: "undo", class: "plain icon", "aria-label": "Undo", "aria-keyshortcuts": "u" }),
    tool("/", "Search", search), tool("⇧c", "Classes", editClasses),
    tool("?", "Keys", showHelp, { class: "plain wide" }),
    tool(null, "", askUser, { id: "user", class: "plain line", title: "Who labels" }));
  listen({
    u: undo, "Shift u": redo, "/": search, "?": showHelp, l: () => openView("label"), g: () => openView("grid"),
    m: () => openView("map"), r: () => openView("review"), "Shift c": editClasses, "Shift e": () => panel.export(),
  }, () => views[shown]);
  on("state", showHead);
  // A refit changes what is worth labelling next, and never the row on screen.
  on("model", () => queue.fill(true));
}

function undoByClick(event) {
  undo();
  if (event.detail > 0) event.currentTarget.blur(); // Enter is for the row again
}

const search = () => openSearch(openRow);

async function firstState() {
  for (let pause = 300; ; pause = Math.min(3000, 2 * pause)) {
    try {
      await refresh();
      return;
    } catch (error) {
      if (error instanceof RequestError && error.isUnauthorized) {
        byId("loading").textContent = "This address has no valid token. Open the address that angpn annotate printed.";
        throw error;
      }
      byId("loading").textContent = `${error.message} Trying again …`;
      await new Promise((done) => setTimeout(done, pause));
    }
  }
}

async function start() {
  await firstState();
  build();
  const unsent = takeUpUnsent();
  if (unsent) toast(`Sending ${unsent} from before, which had not arrived.`);
  startEvents();
  showHead();
  panel.show();
  const row = storage.get(tab, "angpn-row");
  if (row !== null) await queue.show(row); // the row that was on screen before a reload
  openView(storage.get(tab, "angpn-view") ?? "label");
  await queue.fill();
  if (!queue.current) queue.next();
  if (store.state.shared && !store.user) askUser(); // so that two people are not taken for one
}

// For tests and the browser's console.
window.angpnAnnotate = {
  state: () => store.state,
  row: () => queue.current,
  rowsAhead: () => queue.ahead.length,
  screenPosition(row) {
    const { map, canvas } = views.map;
    const box = canvas.getBoundingClientRect();
    const [x, y] = map.toScreen(row);
    return { x: box.left + x, y: box.top + y };
  },
  map: () => views.map.map,
};

start().catch((error) => {
  if (!(error instanceof RequestError)) throw error;
  lost(error);
});
