// The estimate over the number of labels: its line, its interval as a band, and the target.
import { el, percent, svg, whole } from "./elements.js";

const [WIDE, TALL, LEFT, BOTTOM, TOP, RIGHT] = [300, 150, 44, 22, 8, 10];

export function curve(points, target) {
  const [first, last] = [points[0].labels, points[points.length - 1].labels];
  const low = Math.min(0.5, ...points.map((point) => Math.floor(point.low * 10) / 10));
  const x = (labels) => LEFT + ((labels - first) / Math.max(1, last - first)) * (WIDE - LEFT - RIGHT);
  const y = (value) => TOP + ((1 - value) / (1 - low)) * (TALL - TOP - BOTTOM);
  const at = (point, key) => `${x(point.labels).toFixed(1)} ${y(point[key]).toFixed(1)}`;
  const path = (list, key) => list.map((point, place) => `${place ? "L" : "M"}${at(point, key)}`).join("");
  const made = svg("svg", { class: "chart", viewBox: `0 0 ${WIDE} ${TALL}`, role: "img",
    "aria-label": `Estimated accuracy from ${percent(points[0].accuracy)} at ${whole(first)} labels to ${
      percent(points[points.length - 1].accuracy)} at ${whole(last)}` });
  for (const tick of [low, (1 + low) / 2, 1]) {
    made.append(svg("line", { class: "grid", x1: LEFT, x2: WIDE - RIGHT, y1: y(tick), y2: y(tick) }),
      svg("text", { x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, percent(tick)));
  }
  const back = [...points].reverse().map((point) => `L${at(point, "low")}`).join("");
  made.append(svg("path", { class: "band", d: `${path(points, "high")}${back}Z` }));
  if (target !== null && target >= low) {
    made.append(svg("line", { class: "best", x1: LEFT, x2: WIDE - RIGHT, y1: y(target), y2: y(target) }),
      svg("text", { x: LEFT + 3, y: y(target) - 3 }, "target"));
  }
  const end = points[points.length - 1];
  made.append(svg("path", { class: "curve", d: path(points, "accuracy") }),
    svg("circle", { cx: x(end.labels), cy: y(end.accuracy), r: 3.5 }),
    svg("text", { x: LEFT, y: TALL - 6 }, whole(first)),
    svg("text", { x: WIDE - RIGHT, y: TALL - 6, "text-anchor": "end" }, `${whole(last)} labels`));
  return el("figure", {},
    el("figcaption", { class: "hint" }, "Estimate by number of labels, with its 95\u00a0% interval"), made);
}
