// What a person does to rows and classes: each goes to the server, says what happened and can be undone.
import { counted, whole } from "./elements.js";
import { post } from "./api.js";
import { send } from "./outbox.js";
import { lost } from "./connection.js";
import { complain, toast } from "./toasts.js";
import { store, tell } from "./store.js";
import { queue } from "./queue.js";

const undoOffer = { words: "Undo", run: () => undo() };

function act(action, words) {
  toast(words, undoOffer);
  const rows = action.rows ?? (action.row === undefined ? [] : [action.row]);
  return send(action).then((answer) => {
    rows.forEach((row) => queue.arrive(row));
    tell("state", store.state);
    return answer;
  }, (error) => {
    complain(error);
    rows.forEach((row) => queue.release(row));
    if (action.row !== undefined) queue.reload(action.row);
    throw error;
  });
}

const quietly = (promise) => promise.catch(() => {}); // the message was shown

// ---- Rows ----

// Each takes the row as shown, marks it as the server will, and returns at once: labelling never waits.
export function label(row, name) {
  Object.assign(row, { label: name, other: false, skipped: false });
  queue.settle(row.row);
  quietly(act({ type: "label", row: row.row, name }, `${row.id}: ${name}`));
}

export function other(row) {
  Object.assign(row, { label: null, other: true, skipped: false });
  queue.settle(row.row);
  quietly(act({ type: "other", row: row.row }, `${row.id}: none of these`));
}

export function skip(row) {
  row.skipped = true;
  queue.settle(row.row);
  quietly(act({ type: "skip", row: row.row }, `${row.id}: skipped`));
}

export function clear(row) {
  Object.assign(row, { label: null, other: false, skipped: false });
  quietly(act({ type: "clear", row: row.row }, `${row.id}: label removed`));
}

export function labelMany(rows, name, from) {
  rows.forEach((row) => queue.settle(row));
  return act({ type: "label_many", rows, name, from }, `${counted(rows.length, "row")}: ${name}`);
}

export const keep = (row) =>
  quietly(act({ type: "confirm", row: row.row }, `${row.id}: stays ${row.label ?? "as it is"}`));

export const settle = (row, name) =>
  quietly(act({ type: "settle", row: row.row, name }, `${row.id}: settled as ${name ?? "none of these"}`));

// ---- Classes ----

const adding = new Map(); // classes on their way to the server: a second row may have one of them

export function addClass(name) {
  if (!adding.has(name)) {
    const added = act({ type: "add_class", name }, `New class: ${name}`);
    adding.set(name, added);
    added.catch(() => {}).finally(() => adding.delete(name));
  }
  return adding.get(name);
}

export const renameClass = (name, to) => act({ type: "rename_class", name, to }, `${name} is now called ${to}`);
export const mergeClass = (name, into) => act({ type: "merge_class", name, into }, `${name} was merged into ${into}`);

// ---- Back and forth ----

async function step(type, done, offer) {
  try {
    const answer = await send({ type });
    toast(answer.done ?? done, offer);
    if (typeof answer.row === "number") {
      queue.release(answer.row);
      await queue.show(answer.row);
    }
    tell("state", store.state);
    tell("undone", answer);
  } catch (error) {
    complain(error);
  }
}

export function undo() {
  return step("undo", "Undone.", { words: "Redo", run: () => redo() });
}

export function redo() {
  return step("redo", "Done again.", undoOffer);
}

// ---- Results ----

export async function exportResults(button) {
  button.disabled = true;
  toast("Writing the results …");
  try {
    const { files, folder } = await post("api/export", {});
    toast(`Written to ${folder}: ${files.slice(0, 6).join(", ")}${
      files.length > 6 ? ` and ${whole(files.length - 6)} more` : ""}`);
  } catch (error) {
    complain(error);
    lost(error);
  } finally {
    button.disabled = false;
  }
}
