// Keys of the page: one table, from which both the keyboard and the help read.

// A view's own keys: [keys shown, what they do].
export const HELP = {
  "Label a row": [
    ["1–9, letters", "label the row with the class that shows this key, and go on"],
    ["Enter", "accept the guess"],
    ["n", "new class, and label the row with it"],
    ["c", "choose a class by typing its name"],
    ["x", "none of these: kept apart, never forced into a class"],
    ["s", "skip"],
    ["← →", "back and forth"],
    ["Backspace", "remove the label of the row on screen"],
  ],
  Anywhere: [
    ["u", "undo, any number of times"],
    ["Shift u", "redo"],
    ["/", "search by id or text"],
    ["l g m r", "label, grid, map, review"],
    ["Shift c", "rename and merge classes"],
    ["Shift e", "write the results"],
    ["?", "this help"],
  ],
  Grid: [
    ["arrows", "move"],
    ["Space", "take a row out, or in again"],
    ["Enter", "accept all that are in"],
    ["1–9, letters", "label all that are in with another class"],
  ],
  Map: [
    ["arrows", "move a rectangle, with Shift its size"],
    ["Enter", "select what is inside"],
    ["+ − 0", "zoom in, out, show all"],
    ["1–9, letters", "label all selected rows"],
    ["Esc", "select nothing"],
  ],
  Review: [
    ["Enter", "keep the label"],
    ["1–9, letters", "give another"],
    ["x", "none of these"],
    ["← →", "back and forth"],
  ],
};

const inField = (target, key) => {
  if (target.type === "radio") return key === " " || key.startsWith("Arrow"); // which choose; other keys are commands
  return target.closest("input, textarea, select, dialog") !== null;
};

// Calls `commands[key]` or `view().key(event)`; neither while a person types or a dialog is open.
export function listen(commands, view) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (inField(event.target, event.key) || document.querySelector("dialog[open]")) return;
    // Enter and Space on a button or link press it.
    if ((event.key === "Enter" || event.key === " ") && event.target.closest("button:not(.cell), a")) return;
    const key = event.shiftKey && /^[a-z]$/i.test(event.key) ? `Shift ${event.key.toLowerCase()}` : event.key;
    if (event.repeat && !event.key.startsWith("Arrow")) return; // a key held down labels one row
    const handled = commands[key] ? commands[key]() !== false : view().key(key, event);
    if (handled) event.preventDefault();
  });
}
