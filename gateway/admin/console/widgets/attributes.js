// Forms for the attributes of queues, users and other objects, built from the gateway's OpenAPI document.

import { get } from "../api/admin.js";
import { linesOf, numberOf } from "./elements.js";
import { attributeName } from "./units.js";
import { words } from "./words.js";

const NO_LIMIT = 2 ** 40; // a maximum of this or more is the gateway's value for no limit, whatever the default is
const CHOICES_MAX = 10; // a number of fewer values is chosen from a list

let described = null; // schemas by name, once they are loaded

/** Return the attributes of a schema: their names, and what their values are. */
async function attributes(schema) {
  described ??= (await get("openapi.json")).components.schemas;
  return propertiesOf(described[schema]);
}

const propertiesOf = (schema) => Object.entries(schema.properties).map(([name, of]) => [name, resolved(of)]);

/** Return what a value is: `words` if it is one of a list, `isNullable` if it may be missing. */
function resolved(of) {
  const kinds = (of.anyOf ?? [of]).filter((each) => each.type !== "null");
  const isNullable = of.anyOf !== undefined && kinds.length < of.anyOf.length;
  const found = kinds.length === 1 ? { ...of, ...kinds[0], isNullable } : { ...of, isNullable };
  const choices = kinds.map((each) => choicesOf(kinds.length === 1 ? found : each));
  return choices.every(Boolean) ? { ...found, words: choices.flat() } : found;
}

function choicesOf({ type, enum: values, const: value, minimum, maximum }) {
  if (type === "boolean") return ["true", "false"];
  if (value !== undefined) return [String(value)];
  if (type === "integer" && maximum - minimum < CHOICES_MAX) return Array.from({ length: maximum - minimum + 1 }, (_, at) => String(minimum + at));
  return values;
}

/** What the entries of a list of objects have: `noun` and `properties`; null for other values. Maps are lists of names and values. */
function entriesOf(of) {
  if (of.type === "object" && of.patternProperties) {
    const [value] = Object.values(of.patternProperties);
    return { isMap: true, properties: [["name", { type: "string", isRequired: true }], ["value", { ...resolved(value), isRequired: true }]] };
  }
  if (of.type !== "array" || of.items.$ref === undefined) return null;
  const name = of.items.$ref.split("/").at(-1);
  const schema = described[name];
  const noun = words(name.replaceAll(/\B[A-Z]/g, " $&").toLowerCase());
  return { noun, properties: propertiesOf(schema).map(([key, each]) => [key, { ...each, isRequired: schema.required?.includes(key) }]) };
}

/**
 * Return fields for a dialog. `now` are the current values; an attribute without one is not set, and an empty field leaves
 * it unset. Lists have one entry per line, and lists of objects a row of fields for each.
 */
export async function attributeFields(schema, now) {
  return (await attributes(schema)).map(([name, of]) => {
    const isUnset = now[name] === undefined;
    const given = fieldOf(name, of, textOf(now, name, of));
    if (of.words) return { ...given, choices: isUnset || isOptional(schema) || of.isNullable ? ["", ...of.words] : of.words };
    return isUnset || !isLimit(of) ? given : { ...given, placeholder: "no limit" };
  });
}

function fieldOf(name, of, value) {
  const given = { name, label: attributeName(name, { withUnit: true }), value, hint: (of.description ?? "").replaceAll("`", ""), secret: of.format === "password" };
  const entries = entriesOf(of);
  if (entries) return { ...given, rows: rowsOf(name, of, entries, value) };
  if (of.type === "array") return { ...given, lines: true, hint: [given.hint, "one per line"].filter(Boolean).join("; ") };
  return { ...given, placeholder: defaultWords(of) };
}

function rowsOf(name, of, { noun, properties, isMap }, entries) {
  const fields = (entry) =>
    properties.map(([key, each]) => {
      const given = { ...fieldOf(key, each, entry ? entry[key] : textOf({ [key]: each.default }, key, each)), required: each.isRequired };
      const isSet = entry !== undefined && !isDefault(entry[key], each);
      const blank = each.isNullable || each.default === undefined ? [""] : [];
      return { ...given, isSet, ...(each.words ? { choices: [...blank, ...each.words] } : {}) };
    });
  return { noun: noun ?? words(name.replace(/s$/, "")), entries, fields, most: of.maxItems ?? of.maxProperties ?? Infinity, keyed: isMap };
}

/** Whether the text of a field stands for the default of what it is for. */
const isDefault = (text, of) => JSON.stringify(text) === JSON.stringify(textOf({ it: of.default }, "it", of));

/** What an attribute is that is not given; null: nothing. */
function defaultWords(of) {
  if (of.default === undefined || of.default === null) return null;
  return isUnlimited(of.default, of) ? "no limit" : String(of.default);
}

/** Whether an attribute is a limit that is switched off by its maximum. An empty field stands for that. */
function isLimit(of) {
  return of.type === "integer" && (of.maximum >= NO_LIMIT || (of.maximum !== undefined && of.maximum === of.default));
}

/** Whether a value of an attribute stands for no limit. */
function isUnlimited(value, of) {
  return isLimit(of) && value >= of.maximum;
}

/** Attributes of templates are optional; queues have all attributes. */
const isOptional = (schema) => schema.startsWith("QueueTemplate");

/**
 * Return the values of a form that differ from `before`, with the types of the schema; null removes an attribute. Throws
 * if one of them has changed meanwhile (`now`), so that the change of another operator is not overwritten.
 */
export async function changedAttributes(schema, before, values, now = before) {
  const changes = {};
  for (const [name, of] of await attributes(schema)) {
    const was = textOf(before, name, of);
    const text = values[name] ?? was;
    if (isSame(text, was)) continue;
    if (!isSame(textOf(now, name, of), was)) throw new Error(`${name} was changed by another operator: cancel, and open the form again`);
    changes[name] = text === "" && isOptional(schema) ? null : typed(text, of, before[name]);
  }
  return changes;
}

/** Whether a form has what was before. Forms trim values. */
const isSame = (text, was) => (typeof was === "string" ? [was, was.trim()].includes(text) : JSON.stringify(text) === JSON.stringify(was));

/** Return the text of a value, empty without one; of a list of objects, their values by name, as texts. */
function textOf(values, name, of) {
  const value = values[name] ?? null;
  const entries = entriesOf(of);
  if (entries) return listed(value, entries).map((each) => Object.fromEntries(entries.properties.map(([key, its]) => [key, textOf(each, key, its)])));
  if (value === null || isUnlimited(value, of)) return "";
  return of.type === "array" ? value.join("\n") : String(value);
}

/** Return the objects of a list, or the names and values of a map. */
function listed(value, { isMap }) {
  return isMap ? Object.entries(value ?? {}).map(([name, each]) => ({ name, value: each })) : value ?? [];
}

/** Convert a text to the type of the schema. Entries of a list that are unchanged keep their exact text. */
function typed(text, of, before = []) {
  const entries = entriesOf(of);
  if (entries) return typedEntries(text, entries);
  if (text === "" && of.isNullable) return null;
  if (text === "" && isLimit(of)) return of.maximum;
  if (of.type === "integer") return numberOf(text);
  if (of.words?.includes("true")) return { true: true, false: false }[text] ?? text;
  return of.type === "array" ? linesOf(text).map((line) => before.find((each) => each.trim() === line) ?? line) : text;
}

/** Convert rows of texts. What has its default is omitted. */
function typedEntries(rows, { properties, isMap }) {
  if (isMap) return mapOf(rows);
  return rows.map((row) => {
    const given = properties.filter(([key, of]) => of.isRequired || (row[key] !== "" && !isDefault(row[key], of)));
    return Object.fromEntries(given.map(([key, of]) => [key, typed(row[key], of)]));
  });
}

function mapOf(rows) {
  const names = rows.map((each) => each.name);
  const twice = names.find((each, at) => names.indexOf(each) < at);
  if (twice !== undefined) throw new Error(`${twice} is there twice: remove one of them`);
  return Object.fromEntries(rows.map(({ name, value }) => [name, value]));
}
