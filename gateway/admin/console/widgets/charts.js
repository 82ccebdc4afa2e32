// Charts: a sparkline for the course of a number, a bar for a usage, and tiles with a number and its sparkline.

import { h, setText } from "./elements.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 160;
const HEIGHT = 36;

/** Return an element of a drawing. */
export function svg(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

/** A line over the latest values, from zero to the largest. */
export class Sparkline {
  constructor(label) {
    this.element = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "spark", preserveAspectRatio: "none", role: "img" });
    this.element.setAttribute("aria-label", label);
    this.area = svg("path", { class: "spark-area" });
    this.line = svg("path", { class: "spark-line" });
    this.element.append(this.area, this.line);
  }

  show(values) {
    if (values.length < 2) return;
    const most = Math.max(...values, 1);
    const step = WIDTH / (values.length - 1);
    const points = values.map((value, at) => `${(at * step).toFixed(1)},${(HEIGHT - 2 - (value / most) * (HEIGHT - 4)).toFixed(1)}`);
    this.line.setAttribute("d", `M${points.join("L")}`);
    this.area.setAttribute("d", `M0,${HEIGHT}L${points.join("L")}L${WIDTH},${HEIGHT}Z`);
  }
}

/** A bar for a part of a whole, with a warning from 80 % and an alarm from 95 %. A whole of 0 means no limit. */
export function bar(part, whole, text) {
  const share = whole > 0 ? Math.min(part / whole, 1) : 0;
  const fill = h("span", { class: "bar-fill" });
  fill.style.width = `${(share * 100).toFixed(1)}%`;
  const level = share >= 0.95 ? "bar full" : share >= 0.8 ? "bar high" : "bar";
  return h("span", { class: level, title: text }, fill, h("span", { class: "bar-text" }, text));
}

/** A number with a title, a note and a sparkline. */
export class Tile {
  constructor(title) {
    this.number = h("strong", {}, "–");
    this.note = h("small");
    this.spark = new Sparkline(title);
    this.element = h("section", { class: "tile" }, h("h2", {}, title), this.number, this.note, this.spark.element);
  }

  show(number, note, series) {
    setText(this.number, number);
    setText(this.note, note);
    this.spark.show(series);
  }
}
