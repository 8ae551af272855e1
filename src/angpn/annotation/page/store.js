// What the server last said about the project, and who wants to know when it changes.
import { profile, read, storage } from "./api.js";

export const store = {
  state: null, // as GET /api/state answers
  user: storage.get(profile, "angpn-user"), // null: the one that the server was started with
};

const listeners = { state: [], model: [], connection: [], undone: [], row: [] };

export const on = (kind, listener) => listeners[kind].push(listener);
export const tell = (kind, ...about) => listeners[kind].forEach((listener) => listener(...about));

export function accept(state) {
  const before = store.state;
  if (before && before.project === state.project && state.seq < before.seq) return; // overtaken by a later answer
  store.state = state;
  tell("state", state);
  const known = ({ model }) => `${model.version} ${model.ready}`; // what rows ahead were chosen by
  if (before && known(before) !== known(state)) tell("model", state);
}

export async function refresh() {
  accept(await read("api/state", store.user ? { user: store.user } : {}));
}

export function setUser(user) {
  store.user = user || null;
  storage.set(profile, "angpn-user", store.user);
}

export const classNamed = (name) => store.state.classes.find((one) => one.name === name);
