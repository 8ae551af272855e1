// How far the work is, how good the labels of the model are, and when it may stop.
import { byId, counted, el, meter, name, percent, whole } from "./elements.js";
import { swatch } from "./marks.js";
import { curve } from "./curve.js";
import { classNamed, on, store } from "./store.js";
import { exportResults } from "./actions.js";

export class ProgressPanel {
  constructor(openView) {
    this.openView = openView;
    this.body = el("div", { class: "progress-body" });
    this.exportButton = el("button", { type: "button", class: "strong", click: () => this.export() },
      "Write the results");
    byId("progress").replaceChildren(this.body, el("div", { class: "progress-foot" }, this.exportButton,
      el("p", { class: "hint" }, "labels.csv, predictions.csv, the report and the model")));
    on("state", () => this.show());
  }

  export() {
    if (!this.exportButton.disabled) exportResults(this.exportButton);
  }

  // The panel is built anew only when what it says has changed; its focus is kept.
  show() {
    const { state } = store;
    const signature = JSON.stringify([state.counts, state.model, state.estimate, state.suspects, state.disagreements,
      state.target, state.classes]);
    if (signature === this.signature) return;
    this.signature = signature;
    const focused = document.activeElement?.dataset.panel;
    const isOpen = this.body.querySelector("details")?.open ?? false;
    this.body.replaceChildren(...[this.counts(state), this.estimate(state), this.recalls(state, isOpen),
      this.model(state), this.review(state)].filter(Boolean));
    if (focused) this.body.querySelector(`[data-panel="${focused}"]`)?.focus();
  }

  counts({ counts, n_rows: rows }) {
    const rest = [[counts.other, "none of these"], [counts.skipped, "skipped"]].filter(([count]) => count)
      .map(([count, words]) => `${whole(count)} ${words}`).join(" · ");
    return el("section", {},
      el("h2", {}, "Progress"),
      el("p", { class: "beside" }, el("span", { class: "large", id: "labelled" }, whole(counts.labelled)),
        el("span", { class: "interval" }, `of ${whole(rows)} rows labelled by hand`)),
      meter(rows ? counts.labelled / rows : 0),
      rest ? el("p", { class: "hint" }, rest) : null);
  }

  estimate({ estimate, counts, target }) {
    if (!estimate) {
      return el("section", {}, el("h3", {}, "Estimated accuracy"),
        el("p", { class: "soft" }, counts.audit
          ? `${counted(counts.audit, "audit row")} labelled so far. A few more and it is measured.`
          : "Not measured yet. Some rows come as an audit, with the guess hidden: they measure it."));
    }
    const { accuracy, low, high, n, base_rate: base } = estimate;
    const parts = [
      el("h3", {}, "Estimated accuracy"),
      el("p", { class: "beside" }, el("span", { class: "large", id: "accuracy" }, percent(accuracy)),
        el("span", { class: "interval" }, `95\u00a0% interval ${percent(low)} to ${percent(high)}`)),
      el("div", { class: "span", "aria-hidden": "true" },
        el("i", { style: `left:${100 * low}%;width:${100 * (high - low)}%` }),
        el("b", { style: `left:${100 * accuracy}%` }),
        ...(target === null ? [] : [el("u", { style: `left:${100 * target}%` })])),
      el("p", { class: "hint" }, `Measured on ${counted(n, "audit row")} whose guess was hidden. `,
        `Always answering the largest class would be right for ${percent(base)}.`),
    ];
    if (estimate.curve?.length > 1) parts.push(curve(estimate.curve, target));
    parts.push(...this.stop(estimate, target));
    return el("section", {}, ...parts);
  }

  // When to stop.
  stop(estimate, target) {
    const parts = [];
    if (estimate.reached) {
      parts.push(el("p", { class: "reached", id: "reached" }, el("strong", {}, "✓ Target reached: "),
        `the last models were measured at ${percent(target)} or more. Write the results, or go on to be surer.`));
    } else if (target !== null && estimate.labels_to_go !== null && estimate.labels_to_go !== undefined) {
      parts.push(el("p", { class: "to-go" }, `Target ${percent(target)}: probably about `,
        el("strong", {}, counted(estimate.labels_to_go, "more label")), "."));
    } else if (target !== null) {
      parts.push(el("p", { class: "to-go soft" }, `Target ${percent(target)}: too early to say how many more labels.`));
    }
    if (estimate.left_to_doubt) parts.push(name(estimate.left_to_doubt, "p", "name doubt hint"));
    return parts;
  }

  recalls({ estimate }, isOpen) {
    const entries = Object.entries(estimate?.recalls ?? {}).filter(([, share]) => share !== null);
    if (!entries.length) return null;
    const rows = entries.map(([words, share]) => el("tr", {},
      el("th", { scope: "row" }, el("span", { class: "tag" }, swatch(classNamed(words)?.id ?? 0),
        name(words, "span", "name line"))),
      el("td", {}, el("span", { class: "with-bar" }, meter(share), el("span", { class: "number" }, percent(share))))));
    const made = el("details", {}, el("summary", { "data-panel": "recalls" }, "Recall by class"),
      el("table", { class: "recalls" }, el("tbody", {}, ...rows)));
    made.open = isOpen;
    return made;
  }

  model({ model }) {
    let words = "No model yet: it is fitted after the first labels of two classes.";
    if (model.error && !model.ready) words = "There is no model; labelling works all the same.";
    else if (model.ready === false) words = "The rows are being read and compared; labelling works meanwhile.";
    else if (model.fitting) words = `Learning from your ${model.version ? "last" : "first"} labels …`;
    else if (model.version) words = `Model ${model.version}, from ${counted(model.labels, "label")}.`;
    const parts = [el("p", { class: `hint model${model.fitting ? " fitting" : ""}` }, words)];
    if (model.error) parts.push(name(model.error, "p", "name note"));
    return el("section", { "aria-label": "Model" }, ...parts);
  }

  review({ suspects, disagreements }) {
    if (!suspects && !disagreements) return null;
    const words = [suspects && `${counted(suspects, "label")} may be wrong`,
      disagreements && counted(disagreements, "disagreement")].filter(Boolean).join(", ");
    return el("button", { type: "button", class: "plain", "data-panel": "review",
      click: () => this.openView("review") }, `Review: ${words}`);
  }
}
