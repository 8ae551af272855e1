// Marks: a colour and a shape for each class, in the text of a page and on a map.
import { svg } from "./elements.js";

export const SHAPES = [
  "M1 0A1 1 0 1 1-1 0A1 1 0 1 1 1 0Z",
  "M-.88-.88H.88V.88H-.88Z",
  "M0-1.15L1.1.8H-1.1Z",
  "M0-1.25L1.1 0L0 1.25L-1.1 0Z",
  "M0 1.15L1.1-.8H-1.1Z",
  "M-.42-1.1H.42V-.42H1.1V.42H.42V1.1H-.42V.42H-1.1V-.42H-.42Z",
];
export const HUES = 10; // of the palette

export const hueOf = (number) => number % HUES;
// A new shape each time the hues repeat. The last hue, grey, uses the next shape: some readers confuse it with rose.
export const shapeOf = (number) =>
  (Math.floor(number / HUES) + (hueOf(number) === HUES - 1 ? 1 : 0)) % SHAPES.length;

// A mark outside the map. A gap separates the ring from the mark, so that it shows around any hue.
export function markPicture(shape, fill, ringed) {
  const made = svg("svg", { class: "swatch", viewBox: "-1.3 -1.3 2.6 2.6", "aria-hidden": "true" });
  if (ringed) made.append(svg("path", { d: SHAPES[shape], style: "stroke:var(--ink);stroke-width:1.3" }));
  const gap = ringed ? ";stroke:var(--ground);stroke-width:0.6;paint-order:stroke" : "";
  made.append(svg("path", { d: SHAPES[shape], style: `fill:${fill}${gap}` }));
  return made;
}

export const swatch = (number, ringed = false) =>
  markPicture(shapeOf(number), `var(--hue-${hueOf(number)})`, ringed);

export const channels = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)); // of #rrggbb

// Paints a mark of the map once, as an image and as a list of its pixels. `radius` is in CSS pixels, of which `ratio`
// pixels of the screen make one; `theme` has the colours `ink` and `panel` of the page.
export function paintMark({ shape, fill, ringed }, radius, ratio, theme) {
  const size = radius * (ringed ? 1.35 : 1) * ratio;
  const rim = Math.min(1.4, 0.35 + 0.25 * radius) * ratio;
  const image = document.createElement("canvas");
  image.width = image.height = 2 * Math.ceil(size * 1.3 + 2.5 * rim) + 1;
  const pen = image.getContext("2d", { willReadFrequently: true });
  const outline = new Path2D();
  const middle = image.width / 2;
  outline.addPath(new Path2D(SHAPES[shape]), new DOMMatrix().translate(middle, middle).scale(size));
  pen.lineJoin = "round";
  const rims = ringed
    ? [[3.4 * rim, theme.ink], [1.4 * rim, theme.panel]] // a gap separates the ring from the mark
    // A darker rim gives pale hues contrast; tiny marks have no room for one.
    : radius > 2.4 ? [[0.9 * ratio, `color-mix(in srgb, ${fill} 72%, ${theme.ink})`]] : [];
  for (const [thickness, colour] of rims) {
    pen.lineWidth = thickness;
    pen.strokeStyle = colour;
    pen.stroke(outline);
  }
  pen.fillStyle = fill;
  pen.fill(outline);
  const pixels = new Uint32Array(pen.getImageData(0, 0, image.width, image.width).data.buffer);
  const inked = Int32Array.from(pixels.keys()).filter((at) => pixels[at] >>> 24);
  return {
    image,
    half: (image.width - 1) / 2,
    right: inked.map((at) => at % image.width),
    down: inked.map((at) => Math.floor(at / image.width)),
    colours: Uint32Array.from(inked, (at) => pixels[at]),
  };
}

// Blends a mark into the image; for 50,000 rows this is much faster than drawImage.
export function stamp(pixels, across, along, { right, down, colours }, x, y) {
  for (let at = 0; at < colours.length; at++) {
    const toX = x + right[at];
    const toY = y + down[at];
    if (toX < 0 || toY < 0 || toX >= across || toY >= along) continue;
    const over = colours[at];
    const share = (over >>> 24) + 1; // of 256
    if (share === 256) { // opaque
      pixels[toY * across + toX] = over;
      continue;
    }
    const under = pixels[toY * across + toX];
    const rest = 256 - share;
    const redBlue = (((over & 0xff00ff) * share + (under & 0xff00ff) * rest) >>> 8) & 0xff00ff;
    const green = (((over & 0xff00) * share + (under & 0xff00) * rest) >>> 8) & 0xff00;
    pixels[toY * across + toX] = 0xff000000 | redBlue | green;
  }
}
