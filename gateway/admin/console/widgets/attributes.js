// Forms for the attributes of queues, users and other objects, built from the gateway's OpenAPI document.

import { get } from "../api/admin.js";
import { linesOf, numberOf } from "./elements.js";
import { amountOf, attributeName, attributeValue, zeroWords } from "./units.js";
import { words } from "./words.js";

const UNLIMITED_MIN = 2 ** 40; // a maximum of this or more is the gateway's value for no limit, whatever the default is
export const NO_LIMIT = "no limit"; // in place of the number that stands for it
const NOTHING = "–"; // what 0 means, where it needs no word of its own in a form
const CHOICES_MAX = 10; // a number of fewer values is chosen from a list

let described = null; // schemas by name, once they are loaded

/** A value of a form that is not allowed. `members` name the field, as those of the gateway's problems do. */
class WrongValue extends Error {
  constructor(field, text) {
    super(`${field}: ${text}`);
    this.members = { field };
  }
}

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

/** Return how the values of a schema are read: a function of name and value, which returns words with units. */
export async function valueWords(schema) {
  const known = new Map(await attributes(schema));
  return (name, value) => (isUnlimited(value, known.get(name)) ? NO_LIMIT : attributeValue(name, value));
}

/**
 * Return fields for a dialog. `now` are the current values; an attribute without one is not set. An empty field stands for
 * the default, or leaves the attribute of a template unset. Lists have one entry per line, and lists of objects a row of
 * fields for each.
 */
export async function attributeFields(schema, now) {
  return (await attributes(schema)).map(([name, of]) => {
    const isUnset = now[name] === undefined;
    const given = fieldOf(name, of, textOf(now, name, of));
    if (of.words) return { ...given, choices: isUnset || isOptional(schema) || of.isNullable ? ["", ...of.words] : of.words };
    return given;
  });
}

function fieldOf(name, of, value) {
  const given = { name, label: attributeName(name), value, hint: (of.description ?? "").replaceAll("`", ""), secret: of.format === "password" };
  const entries = entriesOf(of);
  if (entries) return { ...given, rows: rowsOf(name, of, entries, value) };
  if (of.type === "array") return { ...given, lines: true, hint: [given.hint, "one per line"].filter(Boolean).join("; ") };
  const word = wordOf(name, of)?.word;
  const hint = isLimit(of) ? [given.hint, `or: ${NO_LIMIT}`].filter(Boolean).join("; ") : given.hint;
  return { ...given, hint, options: word ? [word] : [], placeholder: defaultWords(name, of), normal: of.type === "integer" ? (text) => normal(text, name, of) : null };
}

/** Return a number that somebody has typed as it is shown. Throws Error if it is none. */
function normal(text, name, of) {
  if (text === "") return text;
  const value = numberIn(text, name, of);
  return typeof value === "number" ? textOf({ [name]: value }, name, of) : text;
}

function rowsOf(name, of, { noun, properties, isMap }, entries) {
  const fields = (entry) =>
    properties.map(([key, each]) => {
      const given = { ...fieldOf(key, each, entry ? entry[key] : textOf({ [key]: each.default }, key, each)), required: each.isRequired };
      const isSet = entry !== undefined && !isDefault(entry[key], key, each);
      const blank = each.isNullable || each.default === undefined ? [""] : [];
      return { ...given, isSet, ...(each.words ? { choices: [...blank, ...each.words] } : {}) };
    });
  return { noun: noun ?? words(name.replace(/s$/, "")), entries, fields, most: of.maxItems ?? of.maxProperties ?? Infinity, keyed: isMap };
}

/** Whether the text of a field stands for the default of what it is for. */
const isDefault = (text, name, of) => JSON.stringify(text) === JSON.stringify(textOf({ [name]: of.default }, name, of));

/** What an attribute is that is not given; null: nothing. */
function defaultWords(name, of) {
  if (of.default === undefined || of.default === null || of.default === "") return null;
  return `default: ${textOf({ [name]: of.default }, name, of)}`;
}

/** Whether an attribute is a limit that is switched off by its maximum. */
function isLimit(of) {
  return of.type === "integer" && !of.words && (of.maximum >= UNLIMITED_MIN || (of.maximum !== undefined && of.maximum === of.default));
}

/** Whether a value of an attribute stands for no limit. */
function isUnlimited(value, of) {
  return of !== undefined && isLimit(of) && value >= of.maximum;
}

/** The number of an attribute that has a word in place of it, and that word; null: none has. */
function wordOf(name, of) {
  if (of.type !== "integer" || of.words) return null;
  if (isLimit(of)) return { word: NO_LIMIT, value: of.maximum };
  const word = zeroWords(name) ?? NOTHING;
  return word === NOTHING ? null : { word, value: 0 };
}

/** Attributes of templates are optional; queues have all attributes. */
const isOptional = (schema) => schema.startsWith("QueueTemplate");

/**
 * Return the values of a form that differ from `before`, with the types of the schema; null removes an attribute. Throws
 * WrongValue, and Error if one of them has changed meanwhile (`now`), so that the change of another operator is not
 * overwritten.
 */
export async function changedAttributes(schema, before, values, now = before) {
  const changes = {};
  for (const [name, of] of await attributes(schema)) {
    const was = textOf(before, name, of);
    const text = values[name] ?? was;
    if (isSame(text, was)) continue;
    const value = text === "" && isOptional(schema) ? null : typed(text, name, of, before[name]);
    if (typeof value === "number" && value === before[name]) continue; // typed in another unit
    if (!isSame(textOf(now, name, of), was)) throw new Error(`${name} was changed by another operator: cancel, and open the form again`);
    changes[name] = value;
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
  if (value === null) return "";
  if (of.type === "array") return value.join("\n");
  if (isUnlimited(value, of)) return NO_LIMIT;
  const word = wordOf(name, of);
  if (word?.value === value) return word.word;
  return (of.type === "integer" && amountOf(name)?.write(value)) || String(value);
}

/** Return the objects of a list, or the names and values of a map. */
function listed(value, { isMap }) {
  return isMap ? Object.entries(value ?? {}).map(([name, each]) => ({ name, value: each })) : value ?? [];
}

/** Convert a text to the type of the schema. Entries of a list that are unchanged keep their exact text. Throws WrongValue. */
function typed(text, name, of, before = [], field = name) {
  const entries = entriesOf(of);
  if (entries) return typedEntries(text, entries, field);
  if (text === "" && of.isNullable) return null;
  if (of.type === "integer" && text === "" && of.default !== undefined) return of.default;
  if (of.type === "integer") return typedNumber(text, name, of, field);
  if (of.words?.includes("true")) return { true: true, false: false }[text] ?? text;
  return of.type === "array" ? linesOf(text).map((line) => before.find((each) => each.trim() === line) ?? line) : text;
}

function typedNumber(text, name, of, field) {
  try {
    return numberIn(text, name, of);
  } catch (error) {
    throw new WrongValue(field, error.message);
  }
}

/** Return the number that a text stands for; of one that has no unit, unchanged if it is none, which the gateway reports. Throws Error. */
function numberIn(text, name, of) {
  const word = wordOf(name, of);
  if (text.toLowerCase() === word?.word) return word.value;
  return amountOf(name)?.read(text, of) ?? numberOf(text);
}

/** Convert rows of texts. What has its default is omitted. */
function typedEntries(rows, { properties, isMap }, field) {
  if (isMap) return mapOf(rows);
  return rows.map((row, at) => {
    const given = properties.filter(([key, of]) => of.isRequired || (row[key] !== "" && !isDefault(row[key], key, of)));
    return Object.fromEntries(given.map(([key, of]) => [key, typed(row[key], key, of, [], `${field}.${at}.${key}`)]));
  });
}

function mapOf(rows) {
  const names = rows.map((each) => each.name);
  const twice = names.find((each, at) => names.indexOf(each) < at);
  if (twice !== undefined) throw new Error(`${twice} is there twice: remove one of them`);
  return Object.fromEntries(rows.map(({ name, value }) => [name, value]));
}
