// Attributes of queues, users and the like in forms, which are made from the gateway's own description of them.

import { get } from "./admin.js";
import { linesOf, numberOf } from "./elements.js";

let described = null; // schemas by name, once they were asked for

async function attributes(schema) {
  described ??= (await get("openapi.json")).components.schemas;
  return Object.entries(described[schema].properties);
}

/**
 * Return fields for a dialog. `now` are the values that there are; an attribute that it lacks is not set, and an empty
 * field leaves it so. Lists have a line for each entry; one of several attributes is a JSON object.
 */
export async function attributeFields(schema, now) {
  return (await attributes(schema)).map(([name, of]) => {
    const unset = now[name] === undefined;
    const given = { name, label: name, value: textOf(now, name, of), hint: of.description ?? "", secret: of.format === "password" };
    const words = of.type === "boolean" ? ["true", "false"] : of.enum;
    if (words) return { ...given, choices: unset || mayGo(schema) ? ["", ...words] : words };
    if (of.type === "array") return { ...given, lines: true, hint: holdsObjects(of) ? "a JSON object a line" : "one a line" };
    return { ...given, placeholder: of.default === undefined ? null : String(of.default) };
  });
}

/** Templates say nothing about attributes that they do not set; queues have them all. */
const mayGo = (schema) => schema.startsWith("QueueTemplate");

/**
 * Return what a form has that differs from `before`, typed as the gateway wants it; null for an attribute that is taken
 * out. Throws where one of these is another one `now`: somebody else changed it since, and would not know that it is gone.
 */
export async function changedAttributes(schema, before, values, now = before) {
  const changes = {};
  for (const [name, of] of await attributes(schema)) {
    const was = textOf(before, name, of);
    const text = values[name] ?? was;
    if (text === was.trim()) continue; // as it comes out of a form
    if (textOf(now, name, of) !== was) throw new Error(`${name} was changed meanwhile: cancel, and look at it as it is now`);
    changes[name] = text === "" && mayGo(schema) ? null : typed(text, of, before[name]);
  }
  return changes;
}

const textOf = (values, name, of) => (values[name] === undefined ? "" : asText(values[name], of));

/** Whether a list is one of definitions, not of texts. */
const holdsObjects = (of) => of.items.$ref !== undefined;

function asText(value, of) {
  if (of.type !== "array") return String(value);
  return (holdsObjects(of) ? value.map((each) => JSON.stringify(each, givenOnly)) : value).join("\n");
}

/** Leave out what is not given, for it would be most of an object. */
const givenOnly = (_, value) => value ?? undefined;

/** A list has lines of `before` as they were. */
function typed(text, of, before = []) {
  if (of.type === "integer") return numberOf(text);
  if (of.type === "boolean") return text === "true";
  if (of.type === "array") return holdsObjects(of) ? linesOf(text).map(objectOf) : linesOf(text).map((line) => before.find((each) => each.trim() === line) ?? line);
  return text;
}

function objectOf(line) {
  try {
    return JSON.parse(line);
  } catch (error) {
    throw new Error(`this is no JSON: ${line} (${error.message})`);
  }
}
