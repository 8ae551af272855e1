// What a row is: an image, a text, the cells of a table or numbers; large, or small in lists.
import { el, name, svg } from "./elements.js";
import { imageAddress } from "./api.js";

const SMALL = 160; // pixels of a thumbnail
const SHOWN_CELLS = 4; // in lists

const missing = (words) => el("p", { class: "missing soft" }, words);

function image(url, row, large, { width, height } = {}) {
  const made = el("img", {
    class: `picture${width && Math.max(width, height) <= 64 ? " pixels" : ""}`,
    src: imageAddress(url, large ? null : SMALL), decoding: "async", draggable: "false",
    alt: large ? `Row ${row.id}` : "", width: width ?? null, height: height ?? null,
  });
  made.addEventListener("error", () =>
    made.replaceWith(missing("This image cannot be read; it may have been moved. Skip it, or put it back.")));
  return made;
}

function cells(all, large) {
  const shown = large ? all : all.slice(0, SHOWN_CELLS);
  return el("table", { class: large ? "cells" : "cells small" }, el("tbody", {}, ...shown.map(([column, value]) =>
    el("tr", {}, name(column, "th", large ? "name" : "name line"), name(value, "td", large ? "name" : "name line")))));
}

// The numbers of a row as a line: rows of one class often have one shape.
function line(values) {
  const [low, high] = [Math.min(...values, 0), Math.max(...values, 0)];
  const x = (at) => (100 * at) / Math.max(1, values.length - 1);
  const y = (value) => 38 - (36 * (value - low)) / (high - low || 1);
  const made = svg("svg", { class: "numbers", viewBox: "0 0 100 40", preserveAspectRatio: "none", role: "img",
    "aria-label": `The first ${values.length} numbers of the row` });
  const path = values.map((value, at) => `${at ? "L" : "M"}${x(at).toFixed(2)} ${y(value).toFixed(2)}`);
  made.append(svg("line", { class: "zero", x1: 0, x2: 100, y1: y(0), y2: y(0) }), svg("path", { d: path.join("") }));
  return made;
}

export function content(row, large = false) {
  const { content: it } = row;
  if (it.kind === "image") return image(it.url, row, large, it);
  if (it.kind === "text") {
    const made = name(it.text, "div", large ? "name text" : "name text small");
    if (large && it.cut) made.append(el("p", { class: "hint" }, "The text goes on; only its beginning is shown."));
    return made;
  }
  if (it.kind === "cells") return cells(it.cells, large);
  if (it.kind === "array") {
    if (it.image) return image(it.image, row, large);
    return large
      ? el("div", { class: "array" }, line(it.values), el("p", { class: "hint figures" },
          it.values.map((value) => Number(value.toPrecision(3))).join("  ")))
      : line(it.values);
  }
  return missing(it.error ?? "This row cannot be shown.");
}
