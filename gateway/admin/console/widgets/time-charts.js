// Charts with a time axis: what the gateway keeps of the last hour, and then what comes, without a gap between them.
// uPlot (vendor/) draws them; it is a script of its own, because it has no module in one small file.

import { get } from "../api/admin.js";
import { h, setText } from "./elements.js";

const SPANS = [
  { seconds: 300, label: "5 minutes" },
  { seconds: 3600, label: "1 hour" },
];
const GATHERED_S = 300; // of what a page reads itself
const UNREAD_MAX_S = 10; // between two readings; after more, the line has a gap
const HEIGHT = 150; // of a drawing, in pixels
const WITHOUT_NEWS_MAX = 8; // answers without a new step before all is read again: the gateway's clock was set
const COLORS = ["--accent", "--second", "--third"];
const AXIS_FONT = "11px system-ui, sans-serif";
const BYTES_STEPS = Array.from({ length: 44 }, (_, at) => 2 ** at); // between lines of a grid
const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600]; // seconds
const WHOLE_STEPS = Array.from({ length: 12 }, (_, at) => [1, 2, 5].map((each) => each * 10 ** at)).flat();

let span = SPANS[0].seconds; // for all charts of this page load

/**
 * The charts of one object. `path` is that of its history, with `query`; `drawn` are `{title, figures, words, steps}`:
 * `figures` are `[figure, label]`, `words` makes a text of a value, `steps` are "bytes", "whole" or missing.
 */
export class TimeCharts {
  #path;
  #query;
  #charts;
  #times = [];
  #values = {};
  #withoutNews = 0;
  #asked = 0;

  constructor({ path, query = {}, drawn, label = "History" }) {
    this.#path = path;
    this.#query = query;
    this.#charts = drawn.map((each) => new Chart(each));
    this.grid = h("div", { class: "charts" }, this.#charts.map((each) => each.element));
    this.choice = h("div", { class: "spans", role: "group", "aria-label": "Time shown" }, SPANS.map((each) => this.#button(each)));
    this.element = h("section", { class: "history" }, h("div", { class: "history-head" }, h("h2", {}, label), this.choice), this.grid);
  }

  /** Show another object. */
  ask(path, query) {
    this.#path = path;
    this.#query = query;
    return this.#begin();
  }

  #button({ seconds, label }) {
    const press = () => {
      span = seconds;
      for (const each of this.choice.children) each.setAttribute("aria-pressed", String(each.dataset.span === String(seconds)));
      this.#begin().catch(() => {}); // the next refresh of the page reports what is wrong
    };
    return h("button", { type: "button", "data-span": seconds, "aria-pressed": String(seconds === span), onclick: press }, label);
  }

  #begin() {
    this.#times = [];
    this.#values = {};
    return this.refresh();
  }

  /** Read the steps that have come, and draw. Throws Problem. */
  async refresh() {
    this.#asked += 1;
    const mine = this.#asked;
    const after = this.#withoutNews > WITHOUT_NEWS_MAX ? 0 : (this.#times.at(-1) ?? 0) * 1000;
    const found = await get(this.#path, { ...this.#query, span_s: span, after_ms: after || null });
    if (mine !== this.#asked) return; // another object or time was chosen meanwhile
    this.#withoutNews = found.times_ms.length ? 0 : this.#withoutNews + 1;
    this.#take(found, after > 0);
    for (const each of this.#charts) each.show(this.#times, this.#values, span);
  }

  #take(found, goesOn) {
    const times = found.times_ms.map((each) => each / 1000);
    const known = goesOn ? this.#times : [];
    const step = found.step_ms / 1000;
    const gap = known.length && times.length && times[0] > known.at(-1) + 1.5 * step ? [known.at(-1) + step] : []; // the gateway was down
    const all = [...known, ...gap, ...times];
    const from = all.findIndex((each) => each > (all.at(-1) ?? 0) - span);
    this.#times = all.slice(Math.max(from, 0));
    for (const [name, values] of Object.entries(found.values)) {
      this.#values[name] = [...(goesOn ? (this.#values[name] ?? []) : []), ...gap.map(() => null), ...values].slice(-this.#times.length || all.length);
    }
  }
}

/** The charts of what a page itself reads, from the moment it is open: the gateway keeps nothing of it. */
export class GatheredCharts {
  #charts;
  #times = [];
  #values = {};

  constructor({ drawn, label }) {
    this.#charts = drawn.map((each) => new Chart(each));
    this.element = h("section", { class: "history" }, h("div", { class: "history-head" }, h("h2", {}, label)), h("div", { class: "charts" }, this.#charts.map((each) => each.element)));
  }

  /** Add the values of one reading by figure, null for what is not known, and draw the last minutes. */
  add(atMs, values) {
    const at = atMs / 1000;
    const last = this.#times.at(-1) ?? 0;
    if (at === last) return; // two readings within a millisecond
    if (at < last) this.#begin(); // the clock was set back
    if (last && at - last > UNREAD_MAX_S) this.#push(last + 1, {});
    this.#push(at, values);
    const gone = Math.max(this.#times.findIndex((each) => each > at - GATHERED_S), 0);
    this.#times.splice(0, gone);
    for (const each of Object.values(this.#values)) each.splice(0, gone);
    for (const each of this.#charts) each.show(this.#times, this.#values, GATHERED_S);
  }

  #push(at, values) {
    this.#times.push(at);
    for (const figure of Object.keys({ ...this.#values, ...values })) (this.#values[figure] ??= []).push(values[figure] ?? null);
  }

  #begin() {
    this.#times = [];
    this.#values = {};
  }
}

/** One drawing with its legend: the values at the time that is pointed at, else the latest ones. */
class Chart {
  #drawn;
  #plot = null;
  #numbers;
  #data = [[]];

  constructor(drawn) {
    this.#drawn = drawn;
    this.#numbers = drawn.figures.map(() => h("span", { class: "now" }, "–"));
    this.when = h("span", { class: "when" });
    const legend = drawn.figures.map(([, label], at) => h("span", { class: `series series-${at + 1}` }, label, " ", this.#numbers[at]));
    this.frame = h("div", { class: "plot", role: "img", "aria-label": drawn.title });
    this.element = h("figure", { class: "chart" }, h("figcaption", {}, h("h3", {}, drawn.title), h("p", { class: "chart-legend" }, legend, this.when)), this.frame);
  }

  show(times, values, seconds) {
    this.#data = [times, ...this.#drawn.figures.map(([figure]) => values[figure] ?? times.map(() => null))];
    this.seconds = seconds;
    if (!this.#plot) this.#make();
    else this.#plot.setData(this.#data);
    if (this.#plot?.cursor.idx == null) this.#tell(times.length - 1, false);
  }

  #make() {
    if (!this.frame.clientWidth) return; // not in sight
    this.#plot = new window.uPlot(this.#options(), this.#data, this.frame);
    const sized = new ResizeObserver(() => {
      const width = this.frame.clientWidth;
      if (width && width !== this.#plot.width) this.#plot.setSize({ width, height: HEIGHT });
    });
    sized.observe(this.frame);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const redraw = () => (this.frame.isConnected ? this.#plot.redraw() : dark.removeEventListener("change", redraw));
    dark.addEventListener("change", redraw);
  }

  #options() {
    const { figures, words, steps } = this.#drawn;
    const lines = figures.map(([, label], at) => ({
      label,
      scale: "y",
      stroke: () => color(COLORS[at]),
      fill: at === 0 ? () => `${color(COLORS[0])}22` : undefined,
      width: 1.5,
      dash: at === 1 ? [5, 3] : at === 2 ? [2, 3] : undefined,
      points: { show: false, filter: (plot, series) => lonely(plot.data[series]), size: 4, fill: () => color(COLORS[at]) },
    }));
    const axis = { stroke: () => color("--quiet"), font: AXIS_FONT, grid: { stroke: () => color("--line"), width: 1 }, ticks: { show: false } };
    const incrs = { bytes: BYTES_STEPS, whole: WHOLE_STEPS }[steps];
    return {
      width: this.frame.clientWidth,
      height: HEIGHT,
      padding: [8, 18, 0, 0],
      legend: { show: false },
      cursor: { sync: { key: "history" }, drag: { x: false, y: false }, points: { size: 6 } },
      scales: { x: { range: () => this.#timeRange() }, y: { range: (plot, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      axes: [
        { ...axis, size: 24, space: 48, incrs: TIME_STEPS, values: (plot, times, number, space, step) => times.map((each) => clock(each, step < 60)) },
        { ...axis, size: 66, space: 30, values: (plot, values) => values.map((each) => words(each)), ...(incrs ? { incrs } : {}) },
      ],
      series: [{}, ...lines],
      hooks: { setCursor: [(plot) => this.#tell(plot.cursor.idx ?? this.#data[0].length - 1, plot.cursor.idx != null)] },
    };
  }

  #timeRange() {
    const end = this.#data[0].at(-1) ?? Date.now() / 1000;
    return [end - this.seconds, end];
  }

  /** Show the values of a step, with its time if it was pointed at. */
  #tell(at, isPointed) {
    const texts = this.#drawn.figures.map((figure, number) => text(this.#drawn.words, this.#data[number + 1]?.[at]));
    texts.forEach((each, number) => setText(this.#numbers[number], each));
    setText(this.when, isPointed ? `at ${clock(this.#data[0][at], true)}` : "");
    if (!isPointed) this.frame.setAttribute("aria-label", `${this.#drawn.title}: ${this.#drawn.figures.map(([, label], number) => `${label} ${texts[number]}`).join(", ")}`);
  }
}

/** Return where values stand between gaps: no line leads to them, so points show them. */
export function lonely(values) {
  const found = [];
  values.forEach((value, at) => value === null || (values[at - 1] ?? null) !== null || (values[at + 1] ?? null) !== null || found.push(at));
  return found.length ? found : null;
}

function text(words, value) {
  return value === null || value === undefined ? "–" : words(value);
}

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function clock(seconds, withSeconds) {
  const at = new Date(seconds * 1000);
  const parts = [at.getHours(), at.getMinutes(), ...(withSeconds ? [at.getSeconds()] : [])];
  return parts.map((each) => String(each).padStart(2, "0")).join(":");
}
