// Actions on their way to the server: sent one by one and in order, again until each is answered, and kept in the
// browser's storage until then. The server knows each by its id, so that one sent twice counts once.
import { RequestError, client, nextId, post, profile, storage } from "./api.js";
import { accept, store, tell } from "./store.js";

const waiting = []; // {body, resolve, reject}
let sending = false;
let timer = null;
let pause = 0; // milliseconds before the next attempt
export const trouble = { error: null }; // why the first action was not answered

const place = () => `angpn-unsent:${store.state.project ?? store.state.title}:`;
const save = () => storage.set(profile, place() + client,
  waiting.length ? waiting.map(({ body }) => body) : null);

export const unsent = () => waiting.length;

// Sends an action after those before it; the promise is fulfilled with the server's answer.
export function send(action) {
  const body = { client, user: store.user, id: nextId(), action };
  const answered = new Promise((resolve, reject) => waiting.push({ body, resolve, reject }));
  save();
  flush();
  return answered;
}

export async function flush() {
  if (sending) return;
  sending = true;
  clearTimeout(timer);
  while (waiting.length) {
    const first = waiting[0];
    try {
      const answer = await post("api/actions", first.body);
      settle(() => first.resolve(answer));
      if (answer.state) accept(answer.state);
    } catch (error) {
      if (error.isRefusal && !error.isUnauthorized) settle(() => first.reject(error));
      else {
        wait(error);
        break;
      }
    }
  }
  sending = false;
}

function settle(finish) {
  waiting.shift();
  save();
  pause = 0;
  trouble.error = null;
  finish();
  tell("connection");
}

function wait(error) {
  trouble.error = error instanceof RequestError ? error : new RequestError(String(error), 0);
  pause = Math.min(5000, pause ? 2 * pause : 250);
  timer = setTimeout(flush, pause);
  tell("connection");
}

// Takes up what a page before this one could not send; returns how many.
export function takeUpUnsent() {
  const left = storage.keys(profile).filter((key) => key.startsWith(place()));
  for (const key of left) {
    for (const body of storage.get(profile, key) ?? []) {
      waiting.push({ body, resolve() {}, reject(error) { tell("connection", error); } });
    }
    storage.set(profile, key, null);
  }
  const count = waiting.length;
  save();
  flush();
  return count;
}
