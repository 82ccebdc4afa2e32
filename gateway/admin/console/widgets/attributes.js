// Forms for the attributes of queues, users and other objects, built from the gateway's OpenAPI document.

import { get } from "../api/admin.js";
import { linesOf, numberOf } from "./elements.js";
import { attributeName } from "./units.js";

const NO_LIMIT = 2 ** 40; // a maximum of this or more is the gateway's value for no limit, whatever the default is

let described = null; // schemas by name, once they are loaded

async function attributes(schema) {
  described ??= (await get("openapi.json")).components.schemas;
  return Object.entries(described[schema].properties);
}

/**
 * Return fields for a dialog. `now` are the current values; an attribute without one is not set, and an empty field leaves
 * it unset. Lists have one entry per line. Objects, also as entries of lists, are JSON.
 */
export async function attributeFields(schema, now) {
  return (await attributes(schema)).map(([name, of]) => {
    const unset = now[name] === undefined;
    const given = { name, label: attributeName(name, { withUnit: true }), value: textOf(now, name, of), hint: (of.description ?? "").replaceAll("`", ""), secret: of.format === "password" };
    const words = of.type === "boolean" ? ["true", "false"] : of.enum;
    if (words) return { ...given, choices: unset || isOptional(schema) ? ["", ...words] : words };
    if (of.type === "array") return { ...given, lines: true, hint: holdsObjects(of) ? "one JSON object per line" : "one per line" };
    return { ...given, placeholder: !unset && isLimit(of) ? "no limit" : defaultWords(of) };
  });
}

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
    if (text === was.trim()) continue; // forms trim values
    if (textOf(now, name, of) !== was) throw new Error(`${name} was changed by another operator: cancel, and open the form again`);
    changes[name] = text === "" && isOptional(schema) ? null : typed(text, of, before[name]);
  }
  return changes;
}

const textOf = (values, name, of) => (values[name] === undefined || values[name] === null ? "" : asText(values[name], of));

/** Whether the entries of a list are objects, not texts. */
const holdsObjects = (of) => of.items.$ref !== undefined;

function asText(value, of) {
  if (isUnlimited(value, of)) return "";
  if (of.type === "object") return JSON.stringify(value);
  if (of.type !== "array") return String(value);
  return (holdsObjects(of) ? value.map((each) => JSON.stringify(each, givenOnly)) : value).join("\n");
}

/** Omit values that are not set, which are most of an object. */
const givenOnly = (_, value) => value ?? undefined;

/** Convert a text to the type of the schema. Entries of a list that are unchanged keep their exact text. */
function typed(text, of, before = []) {
  if (text === "" && isLimit(of)) return of.maximum;
  if (of.type === "integer") return numberOf(text);
  if (of.type === "boolean") return text === "true";
  if (of.type === "object") return objectOf(text);
  if (of.type === "array") return holdsObjects(of) ? linesOf(text).map(objectOf) : linesOf(text).map((line) => before.find((each) => each.trim() === line) ?? line);
  return text;
}

function objectOf(line) {
  try {
    return JSON.parse(line);
  } catch (error) {
    throw new Error(`this is not JSON: ${line} (${error.message})`);
  }
}
