// Tiles: one number each, and the way it went.

import { Sparkline } from "./charts.js";
import { h, setText } from "./elements.js";

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
