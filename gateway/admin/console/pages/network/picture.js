// A picture of the network as this broker sees it: itself in the middle, around it its neighbors and the foreign brokers
// that bridges lead to, and the links and bridges between them.

import { h, setText } from "../../widgets/elements.js";
import { svg } from "../../widgets/charts.js";
import { count, rate } from "../../widgets/words.js";

// Of the drawing, the half axes of the ellipse that the neighbors are on, and the boxes with so much of a name; the title has all of it.
const BROAD = { width: 720, height: 380, reach: { x: 270, y: 145 }, box: { width: 136, height: 44 }, nameChars: 16 };
// On a phone, where the other would be too small to read.
const NARROW = { width: 372, height: 460, reach: { x: 132, y: 185 }, box: { width: 100, height: 44 }, nameChars: 11 };

/**
 * Neighbors are `{name, state, out, in, backlog, open, url}`: `state` is up, down or missing, rates are null at first. One
 * with a `url` is a bridge to the foreign broker there.
 */
export class NetworkPicture {
  #drawn = "";
  #labels = new Map(); // key of a neighbor -> the figures of its link

  constructor() {
    this.element = svg("svg", { class: "network", role: "img" });
    this.element.setAttribute("aria-label", "Picture of the network");
  }

  show(broker, neighbors) {
    const drawn = JSON.stringify([broker, neighbors.map((each) => [keyOf(each), each.state])]);
    if (drawn !== this.#drawn) this.#draw(broker, neighbors);
    this.#drawn = drawn;
    for (const each of neighbors) setText(this.#labels.get(keyOf(each)), figures(each));
  }

  #draw(broker, neighbors) {
    const form = matchMedia("(max-width: 640px)").matches ? NARROW : BROAD;
    const { width, height, reach } = form;
    this.element.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const middle = { x: width / 2, y: height / 2 };
    const places = neighbors.map((each, at) => ({ each, ...around(middle, reach, at, neighbors.length) }));
    this.#labels = new Map();
    const lines = places.map((to) => svg("line", { class: `link ${to.each.state}${to.each.url ? " bridge" : ""}`, x1: middle.x, y1: middle.y, x2: to.x, y2: to.y }));
    const labels = places.map((to) => {
      const beyond = form.box.height / 2 + (to.y < middle.y ? 7 : 17); // outside of the box, away from the middle
      const label = svg("text", { class: "figures", x: to.x, y: to.y < middle.y ? to.y - beyond : to.y + beyond });
      this.#labels.set(keyOf(to.each), label);
      return label;
    });
    const boxes = places.map((to) => box(form, to.each.name, to, to.each.state, to.each.state === "missing" ? null : to.each.open, to.each.url));
    this.element.replaceChildren(...lines, ...boxes, box(form, broker, middle, "self", null), ...labels);
  }
}

const keyOf = ({ name, url }) => `${url ? "bridge" : "link"} ${name}`;

function around(middle, reach, at, total) {
  const angle = (2 * Math.PI * at) / Math.max(total, 1) - Math.PI / 2;
  return { x: middle.x + reach.x * Math.cos(angle), y: middle.y + reach.y * Math.sin(angle) };
}

function figures({ state, out, in: incoming, backlog }) {
  if (state === "missing") return "no link";
  const waiting = backlog ? `, ${count(backlog)} waiting` : "";
  return state === "up" ? `${rate(out)} /s out, ${rate(incoming)} /s in${waiting}` : `down${waiting}`;
}

function box(form, name, { x, y }, state, open, url = "") {
  const shown = name.length > form.nameChars ? `${name.slice(0, form.nameChars - 1)}…` : name;
  const frame = svg("rect", { x: x - form.box.width / 2, y: y - form.box.height / 2, ...form.box, rx: url ? 22 : 9 });
  const text = svg("text", { x, y: y + 5 });
  setText(text, shown);
  const title = svg("title", {});
  const words = url ? { up: `bridge to ${url}`, down: `bridge to ${url}, down` } : { self: "this broker", up: "linked", down: "link down", missing: "not linked" };
  setText(title, `${name}: ${words[state]}`);
  const made = svg(open ? "a" : "g", { class: `broker ${state}`, ...(open ? { href: open } : {}) });
  made.append(title, frame, text);
  return made;
}

/** What the colors mean. */
export function legend() {
  const entries = [["up", "linked"], ["down", "down"], ["missing", "no link to a broker that neighbors have"], ["bridge", "bridge to a foreign broker"]];
  return h("p", { class: "quiet network-legend" }, entries.map(([state, meaning]) => h("span", { class: state }, meaning)));
}
