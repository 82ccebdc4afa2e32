// Fields of a form: one value each, or rows of fields for a list of objects.

import { h, setText } from "./elements.js";

const LINE_CHARS = 50; // about the width of a text area
const LINES_MAX = 10; // visible lines of a text area
const CHOICES = new Map([["", "–"], ["true", "yes"], ["false", "no"]]); // as people read them
const ROW_FIELDS_MAX = 10; // a row with more shows those that are required or set, and the others when asked
const LINE_FIELDS_MAX = 3; // a row of so few is one line

let lists = 0; // of suggestions that were made: each has an id of its own

/**
 * Return a field: `{name, element, read, rename, mark, clear}`. `read()` returns its value. `rename(prefix)` sets where it is
 * in the form. `mark(path, text)` shows an error at it, or at the field in it that the rest of the path names. `given` is
 * `{name, label, value, required, hint, placeholder}`, with `options` for suggestions, `choices` for a fixed list,
 * `lines: true` for a text of several lines, `secret: true` for a password, or `rows` for a list of objects. `normal(text)`
 * returns what was typed in its usual form, or throws Error, which is shown at the field when it is left.
 */
export function makeField(given) {
  return given.rows ? new Rows(given) : new Field(given);
}

class Field {
  #input;
  #error = h("small", { class: "wrong", hidden: true });
  #given;

  constructor({ name, label, value = "", required = false, hint = "", placeholder = null, options = [], choices = null, lines = false, secret = false, normal = null }) {
    this.name = name;
    this.#given = value;
    const list = options.length ? h("datalist", { id: `options-${(lists += 1)}` }, options.map((each) => h("option", { value: each }))) : null;
    const attributes = { name, value, required, placeholder };
    if (choices) this.#input = h("select", attributes, choices.map((each) => h("option", { value: each, selected: each === value }, CHOICES.get(each) ?? each)));
    else if (lines) this.#input = h("textarea", { ...attributes, rows: Math.min(2 + Math.floor(value.length / LINE_CHARS), LINES_MAX) });
    else if (secret) this.#input = h("input", { ...attributes, type: "password", autocomplete: "new-password" });
    else this.#input = h("input", { ...attributes, list: list ? list.id : null, autocomplete: "off" });
    this.element = h("label", { class: "field" }, label, this.#input, hint ? h("small", {}, hint) : null, this.#error, list);
    if (normal) this.#input.addEventListener("change", () => this.#put(normal));
  }

  #put(normal) {
    this.clear();
    try {
      this.#input.value = normal(this.read());
    } catch (error) {
      this.#show(error.message);
    }
  }

  /** Return the text. Spaces at its ends are omitted, unless it is a password or as it was given. */
  read() {
    const text = this.#input.value;
    return this.#input.type === "password" || text === this.#given ? text : text.trim();
  }

  rename(prefix) {
    this.#input.name = `${prefix}${this.name}`;
  }

  mark(_, text) {
    this.#show(text);
    unfold(this.element);
    this.focus();
  }

  #show(text) {
    setText(this.#error, text);
    this.#error.hidden = false;
    this.#input.setAttribute("aria-invalid", "true");
  }

  clear() {
    this.#error.hidden = true;
    this.#input.removeAttribute("aria-invalid");
  }

  focus() {
    this.#input.focus();
  }
}

/** Show an element that is among the further settings of a row. */
function unfold(element) {
  const folded = element.closest("details");
  if (folded) folded.open = true;
}

const fieldsIn = (fields) => h("div", { class: "fields" }, fields.map((each) => each.element));

/** Return the parts of a row: its title and tools, and its fields, some of which may be folded. */
function parts({ fields, title }, given, tools) {
  const folds = given.length > ROW_FIELDS_MAX;
  const isShown = (_, at) => !folds || given[at].required || given[at].isSet;
  const folded = fields.filter((each, at) => !isShown(each, at));
  const more = folded.length ? h("details", {}, h("summary", {}, `${folded.length} more settings`), fieldsIn(folded)) : null;
  return [h("div", { class: "row-head" }, title, tools), fieldsIn(fields.filter(isShown)), more];
}

/**
 * A list of objects: a group of fields for each, which can be moved and removed. `rows` is `{noun, entries, fields, most, keyed}`:
 * `fields(entry)` returns the fields of an entry, and of a new one without it. Where the gateway has an object instead of a
 * list, the entries are `keyed`: they have a `name` and a `value`.
 */
class Rows {
  #rows = [];
  #of;
  #list = h("div");
  #error = h("p", { class: "wrong", hidden: true });
  #add;
  #prefix = "";

  constructor({ name, label, hint = "", rows }) {
    this.name = name;
    this.#of = rows;
    this.#add = h("button", { type: "button", onclick: () => this.#append() }, `Add ${rows.noun}`);
    this.element = h("fieldset", { class: "rows" }, h("legend", {}, label), hint ? h("small", {}, hint) : null, this.#list, this.#error, this.#add);
    for (const entry of rows.entries) this.#insert(entry);
    this.#number();
  }

  /** Return the values of the rows, by the names of their fields. */
  read() {
    return this.#rows.map((row) => Object.fromEntries(row.fields.map((each) => [each.name, each.read()])));
  }

  rename(prefix) {
    this.#prefix = `${prefix}${this.name}.`;
    this.#number();
  }

  mark(path, text) {
    const [at, key, ...rest] = path;
    const row = this.#of.keyed ? this.#rows.find((each) => each.fields[0].read() === path.join(".")) : this.#rows[Number(at)];
    const field = row?.fields.find((each) => each.name === key);
    if (field && !this.#of.keyed) return field.mark(rest, text);
    const error = row?.error ?? this.#error;
    setText(error, text);
    error.hidden = false;
    unfold(this.element);
    (row?.fields[0] ?? this).focus();
    return undefined;
  }

  clear() {
    for (const error of [this.#error, ...this.#rows.map((each) => each.error)]) error.hidden = true;
    for (const field of this.#rows.flatMap((each) => each.fields)) field.clear();
  }

  focus() {
    this.#add.focus();
  }

  #append() {
    const row = this.#insert();
    this.#number();
    row.fields[0].focus();
  }

  #insert(entry) {
    const given = this.#of.fields(entry);
    const row = { fields: given.map(makeField), title: h("strong"), error: h("p", { class: "wrong row-error", hidden: true }) };
    const button = (label, press) => h("button", { type: "button", onclick: press }, label);
    row.up = button("Up", () => this.#move(row, -1));
    row.down = button("Down", () => this.#move(row, 1));
    row.drop = button("Remove", () => this.#remove(row));
    const tools = h("span", { class: "row-tools" }, this.#of.keyed ? [] : [row.up, row.down], row.drop);
    row.element = h("div", { class: "row", role: "group" }, given.length > LINE_FIELDS_MAX ? parts(row, given, tools) : h("div", { class: "line" }, fieldsIn(row.fields), tools), row.error);
    this.#rows.push(row);
    this.#list.append(row.element);
    return row;
  }

  #move(row, by) {
    const from = this.#rows.indexOf(row);
    this.#rows.splice(from, 1);
    this.#rows.splice(from + by, 0, row);
    if (by < 0) row.element.previousSibling.before(row.element);
    else row.element.nextSibling.after(row.element);
    this.#number();
    const [wanted, other] = by < 0 ? [row.up, row.down] : [row.down, row.up];
    (wanted.disabled ? other : wanted).focus();
  }

  #remove(row) {
    const at = this.#rows.indexOf(row);
    this.#rows.splice(at, 1);
    row.element.remove();
    this.#number();
    (this.#rows[at] ?? this.#rows[at - 1] ?? { drop: this.#add }).drop.focus();
  }

  /** Number the rows, in what is read and in the names of their fields. */
  #number() {
    const { noun, most } = this.#of;
    this.#rows.forEach((row, at) => {
      const title = `${noun} ${at + 1}`;
      setText(row.title, title);
      row.element.setAttribute("aria-label", title);
      row.up.disabled = at === 0;
      row.down.disabled = at === this.#rows.length - 1;
      row.up.setAttribute("aria-label", `Move ${title} up`);
      row.down.setAttribute("aria-label", `Move ${title} down`);
      row.drop.setAttribute("aria-label", `Remove ${title}`);
      for (const field of row.fields) field.rename(`${this.#prefix}${at}.`);
    });
    this.#add.disabled = this.#rows.length >= most;
  }
}
