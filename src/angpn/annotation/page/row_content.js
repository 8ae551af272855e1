// What a row is: an image, a text, the cells of a table or numbers; large, or small in lists.
import { el, name, svg } from "./elements.js";
import { imageAddress } from "./api.js";

const SMALL = 160; // pixels of a thumbnail
const SHOWN_CELLS = 4; // in lists
const PIXELS = 64; // up to which each one of a picture is a square

const missing = (words) => el("p", { class: "missing soft" }, words);

function image(url, row, large, { width, height } = {}) {
  const made = el("img", {
    class: "picture",
    src: imageAddress(url, large ? null : SMALL), decoding: "async", draggable: "false",
    alt: large ? `Row ${row.id}` : "", width: width ?? null, height: height ?? null,
  });
  made.addEventListener("load", () => // small pictures stay sharp when they are shown large
    made.classList.toggle("pixels", Math.max(made.naturalWidth, made.naturalHeight) <= PIXELS));
  made.addEventListener("error", () =>
    made.replaceWith(missing("This image cannot be read; it may have been moved. Skip it, or put it back.")));
  return made;
}

function cells(all, large) {
  const shown = large ? all : all.slice(0, SHOWN_CELLS);
  return el("table", { class: large ? "cells" : "cells small" }, el("tbody", {}, ...shown.map(([column, value]) =>
    el("tr", {}, name(column, "th", large ? "name" : "name line"), name(value, "td", large ? "name" : "name line")))));
}

const figure = (value) => (value === null ? "missing" : String(Number(value.toPrecision(3))));

// The numbers of a row as a line, with a gap for one that is missing: rows of one class often have one shape.
function line(values) {
  const known = values.filter((value) => value !== null);
  const [low, high] = [Math.min(...known, 0), Math.max(...known, 0)];
  const x = (at) => (100 * at) / Math.max(1, values.length - 1);
  const y = (value) => 38 - (36 * (value - low)) / (high - low || 1);
  const made = svg("svg", { class: "numbers", viewBox: "0 0 100 40", preserveAspectRatio: "none", role: "img",
    "aria-label": `The first ${values.length} numbers of the row` });
  const path = values.map((value, at) => (value === null ? ""
    : `${(values[at - 1] ?? null) === null ? "M" : "L"}${x(at).toFixed(2)} ${y(value).toFixed(2)}`));
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
          it.values.map(figure).join("  ")))
      : line(it.values);
  }
  return missing(it.error ?? "This row cannot be shown.");
}
