// A table that updates its rows in place, so that focus, selection and scrolling survive a refresh.

import { h, setText } from "./elements.js";

const LONG_CHARS = 20; // a shorter text is never cut off
const ROWS_MAX = 500; // in the page at once; a filter finds the others

/**
 * Columns are `{title, about, value, cell, numeric, wide, long, whole}`. `value(row)` is the sort key and, without `cell(row)`, the text.
 * `about` explains the title under the pointer. A cell is a text or an element. `wide` columns are hidden on phones, `long` ones wrap, and
 * those that are `whole` are never cut off.
 * On a phone each row of a `stacked` table is a list of all its columns, with their titles.
 */
export class LiveTable {
  #columns;
  #heads;
  #key;
  #open;
  #rows = new Map(); // key -> {row, element, cells}
  #sort;
  #last = [];

  constructor({ label, columns, key, open = null, sort = null, stacked = false, empty = "No entries." }) {
    this.#columns = columns;
    this.#key = key;
    this.#open = open;
    this.#sort = sort; // {column, descending}; null: in the given order
    this.#heads = columns.map((column, at) => this.#head(column, at));
    this.body = h("tbody", { role: "rowgroup" });
    this.empty = h("p", { class: "quiet", hidden: true }, empty);
    this.more = h("p", { class: "quiet", hidden: true });
    // With its roles: a stacked table is none by its style.
    const table = h("table", { role: "table", class: stacked ? "stacked" : null, "aria-label": label }, h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, this.#heads)), this.body);
    this.element = h("div", { class: "table" }, h("div", { class: "scroll" }, table), this.empty, this.more);
    this.#mark();
  }

  #head(column, at) {
    const attributes = { scope: "col", role: "columnheader", class: classOf(column), title: column.about };
    if (!this.#sort || !column.title) return h("th", attributes, column.title);
    const button = h("button", { type: "button", onclick: () => this.#sortBy(at) }, column.title);
    return h("th", attributes, button);
  }

  #sortBy(at) {
    const same = this.#sort.column === at;
    this.#sort = { column: at, descending: same ? !this.#sort.descending : Boolean(this.#columns[at].numeric) };
    this.#mark();
    this.show(this.#last);
  }

  #mark() {
    if (!this.#sort) return;
    this.#heads.forEach((head, at) => {
      const order = this.#sort.descending ? "descending" : "ascending";
      if (at === this.#sort.column) head.setAttribute("aria-sort", order);
      else head.removeAttribute("aria-sort");
    });
  }

  /** Show these rows instead of the current ones. */
  show(rows) {
    this.#last = rows;
    const shown = this.#ordered(rows).slice(0, ROWS_MAX);
    const kept = new Set(shown.map(this.#key));
    for (const [key, { element }] of this.#rows) {
      if (!kept.has(key)) {
        element.remove();
        this.#rows.delete(key);
      }
    }
    let before = null;
    for (const row of shown) {
      const element = this.#put(row);
      const place = before ? before.nextSibling : this.body.firstChild;
      if (place !== element) this.body.insertBefore(element, place);
      before = element;
    }
    this.empty.hidden = rows.length > 0;
    this.more.hidden = rows.length <= ROWS_MAX;
    setText(this.more, `Showing ${ROWS_MAX} of ${rows.length}.`);
  }

  #ordered(rows) {
    if (!this.#sort) return rows;
    const { value } = this.#columns[this.#sort.column];
    const sign = this.#sort.descending ? -1 : 1;
    const keyed = rows.map((row) => [value(row) ?? -1, this.#key(row), row]);
    keyed.sort((a, b) => sign * compared(a[0], b[0]) || compared(a[1], b[1]));
    return keyed.map((each) => each[2]);
  }

  #put(row) {
    const key = this.#key(row);
    let known = this.#rows.get(key);
    if (!known) {
      const cells = this.#columns.map((column) => h("td", { role: "cell", class: classOf(column), "data-title": column.title || null }));
      const element = h("tr", { role: "row", tabindex: 0, "data-key": key }, cells);
      known = { row, element, cells };
      if (this.#open) {
        element.classList.add("opens");
        element.addEventListener("click", (event) => event.target.closest("a,button,input") || this.#open(known.row));
      }
      this.#rows.set(key, known);
    }
    known.row = row;
    this.#columns.forEach((column, at) => fill(known.cells[at], column.cell ? column.cell(row) : column.value(row)));
    return known.element;
  }
}

/** Show a text or an element in a cell; what may be cut off is shown under the pointer. */
function fill(cell, content) {
  if (content instanceof Node) {
    if (cell.firstChild?.isEqualNode?.(content)) return;
    cell.replaceChildren(content);
  } else {
    setText(cell, content === null || content === undefined ? "" : String(content));
  }
  if (cell.textContent.length > LONG_CHARS) cell.title = cell.textContent;
  else cell.removeAttribute("title");
}

function classOf(column) {
  const classes = [column.numeric && "number", column.wide && "wide", column.long && "long", column.whole && "whole"];
  return classes.filter(Boolean).join(" ") || null;
}

function compared(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}
