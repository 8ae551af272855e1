// Elements, numbers and user text, as all pages of angpn show them. A module that imports nothing from pages.

export const byId = (id) => document.getElementById(id);
export const whole = (number) => number.toLocaleString("en");
export const counted = (number, unit) => `${whole(number)} ${unit}${number === 1 ? "" : "s"}`;
export const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)}\u00a0%`;

// A Content-Security-Policy may allow style sheets and no "style" attributes: those are set as properties.
function setAttributes(made, attributes) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "click") made.addEventListener("click", value);
    else if (key === "style") made.style.cssText = value;
    else if (value !== null) made.setAttribute(key, value);
  }
}

// Children that are strings become text nodes: user text is never parsed as HTML.
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  setAttributes(made, attributes);
  made.append(...children.filter((child) => child !== null));
  return made;
}

export function svg(tag, attributes, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  setAttributes(made, attributes);
  made.textContent = text;
  return made;
}

// User text, with its own writing direction.
export const name = (text, tag = "span", kind = "name") =>
  el(tag, { class: kind, dir: "auto", title: kind.includes("line") ? text : null }, text); // a line may be truncated

export const meter = (share) =>
  el("span", { class: "meter" }, el("i", { style: `width:${(100 * share).toFixed(1)}%` }));

export const paragraph = (...parts) => el("p", { class: "soft" }, ...parts);

export function announce(text) { // to screen readers
  byId("live").textContent = text;
}

export function bytesOf(base64) {
  const binary = atob(base64);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < bytes.length; at++) bytes[at] = binary.charCodeAt(at);
  return bytes;
}
