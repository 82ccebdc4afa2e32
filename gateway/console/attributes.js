// Attributes of queues and templates in forms, which are made from the gateway's own description of them.

import { get } from "./admin.js";
import { linesOf } from "./elements.js";

let described = null; // schemas by name, once they were asked for

async function attributes(schema) {
  described ??= (await get("openapi.json")).components.schemas;
  return Object.entries(described[schema].properties);
}

/**
 * Return fields for a dialog. `now` are the values that there are; an attribute that it lacks is not set, and an empty
 * field leaves it so.
 */
export async function attributeFields(schema, now) {
  return (await attributes(schema)).map(([name, of]) => {
    const unset = now[name] === undefined;
    const given = { name, label: name, value: unset ? "" : asText(now[name], of), hint: of.description ?? "one a line" };
    const words = of.type === "boolean" ? ["true", "false"] : of.enum;
    if (words) return { ...given, choices: unset || mayGo(schema) ? ["", ...words] : words };
    if (of.type === "array") return { ...given, lines: true };
    return { ...given, placeholder: of.default === undefined ? null : String(of.default) };
  });
}

/** Templates say nothing about attributes that they do not set; queues have them all. */
const mayGo = (schema) => schema.startsWith("QueueTemplate");

/** Return what differs from `now`, typed as the gateway wants it; null for an attribute that is taken out. */
export async function changedAttributes(schema, now, values) {
  const changes = {};
  for (const [name, of] of await attributes(schema)) {
    const before = now[name] === undefined ? "" : asText(now[name], of);
    const text = values[name];
    if (text === before) continue;
    changes[name] = text === "" && mayGo(schema) ? null : typed(text, of);
  }
  return changes;
}

function asText(value, of) {
  return of.type === "array" ? value.join("\n") : String(value);
}

/** What is no number stays a text: the gateway says what is wrong with it. */
function typed(text, of) {
  if (of.type === "integer") return /^\d+$/.test(text) ? Number(text) : text;
  if (of.type === "boolean") return text === "true";
  if (of.type === "array") return linesOf(text);
  return text;
}
