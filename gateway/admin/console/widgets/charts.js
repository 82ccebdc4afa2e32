// A bar for a usage, tiles with a number, and elements of drawings. Charts with a time axis are in time-charts.js.

import { h, setText } from "./elements.js";

const SVG = "http://www.w3.org/2000/svg";

/** Return an element of a drawing. */
export function svg(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

/** A bar for a part of a whole, with a warning from 80 % and an alarm from 95 %. A whole of 0 means no limit. */
export function bar(part, whole, text) {
  const share = whole > 0 ? Math.min(part / whole, 1) : 0;
  const fill = h("span", { class: "bar-fill" });
  fill.style.width = `${(share * 100).toFixed(1)}%`;
  const level = share >= 0.95 ? "bar full" : share >= 0.8 ? "bar high" : "bar";
  return h("span", { class: level, title: text }, fill, h("span", { class: "bar-text" }, text));
}

/** A number with a title and a note. */
export class Tile {
  constructor(title) {
    this.number = h("strong", {}, "–");
    this.note = h("small");
    this.element = h("section", { class: "tile" }, h("h2", {}, title), this.number, this.note);
  }

  show(number, note) {
    setText(this.number, number);
    setText(this.note, note);
  }
}
