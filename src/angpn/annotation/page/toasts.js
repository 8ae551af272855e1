// Short messages at the edge of the page that say what happened, each with a way back where there is one.
import { byId, el } from "./elements.js";

const SHOWN = 7000; // milliseconds
let timer = null;

// Shows a message in place of the one before; `offer` is {words, run}: a button beside it.
export function toast(words, offer = null, kind = "done") {
  clearTimeout(timer);
  const parts = [el("span", { dir: "auto", class: "name" }, words)];
  if (offer) parts.push(el("button", { type: "button", class: "plain", click: offer.run }, offer.words));
  byId("toasts").replaceChildren(el("p", { class: `toast ${kind}` }, ...parts));
  timer = setTimeout(() => byId("toasts").replaceChildren(), kind === "bad" ? 2 * SHOWN : SHOWN);
}

export const complain = (error) => toast(error.message, null, "bad");
