// Whether the server is there: its events, a question every second while it is not, and the banner that says so.
import { byId, counted, el } from "./elements.js";
import { openEvents } from "./api.js";
import { on, refresh, tell } from "./store.js";
import { flush, trouble, unsent } from "./outbox.js";
import { toast } from "./toasts.js";

const LATE = 6000; // milliseconds without an answer after which the server is probably gone
let lostAt = null;
let unauthorized = false;
let asking = null;
let refreshing = null;

export const isConnected = () => lostAt === null;

export function startEvents() {
  const events = openEvents();
  events.addEventListener("message", () => {
    refreshing ??= setTimeout(() => {
      refreshing = null;
      refresh().catch(lost);
    }, 80);
  });
  events.addEventListener("open", () => lostAt !== null && ask());
  events.addEventListener("error", () => {
    ask();
    if (events.readyState === EventSource.CLOSED) setTimeout(startEvents, 2000);
  });
  on("connection", () => {
    if (trouble.error) lost(trouble.error);
    show();
  });
}

// To be called with the error of any request that failed.
export function lost(error) {
  if (error.status !== 0 && !error.isUnauthorized) return; // it answered
  unauthorized = error.isUnauthorized === true;
  lostAt ??= Date.now();
  asking ??= setTimeout(ask, 700);
  show();
}

async function ask() {
  clearTimeout(asking);
  asking = null;
  try {
    await refresh();
  } catch (error) {
    lost(error);
    return;
  }
  if (lostAt === null) return;
  lostAt = null;
  unauthorized = false;
  trouble.error = null;
  show();
  await flush();
  if (!unsent()) toast("Connected again. Everything is saved.");
  tell("connection");
}

function words() {
  const kept = unsent() ? ` ${counted(unsent(), "action")} waiting to be sent; none is lost.` : " Nothing is lost.";
  if (unauthorized) {
    return ["The server was started again with another address: open the one that it printed.", kept];
  }
  const { error } = trouble;
  if (error && error.status >= 500) return [error.message, kept];
  if (Date.now() - lostAt < LATE) return ["Reconnecting …", kept];
  return ["The server does not answer. Start the same ", el("code", {}, "angpn annotate"),
    " command again, with the same port; this page then goes on by itself.", kept];
}

function show() {
  const banner = byId("banner");
  const shown = lostAt !== null || (trouble.error !== null && trouble.error.status >= 500);
  const made = shown ? el("p", {}, ...words()) : null;
  if (banner.hidden === shown || (shown && banner.textContent !== made.textContent)) {
    banner.hidden = !shown;
    banner.replaceChildren(...(shown ? [made] : []));
  }
}
