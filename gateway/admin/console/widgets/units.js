// Attributes of queues as people read them: names as words, values with their units. The exact name is the title.

import { h } from "./elements.js";
import { count, size, words } from "./words.js";

const MEGABYTE = 1024 * 1024;
const FORMS = [
  [/^max_msg_size$/, (value) => size(value)],
  [/^(max_msg_spool_usage|retention_size_mb)$/, (value) => size(value * MEGABYTE)],
  [/^redelivery_delay_multiplier$/, (value) => `${value} %`],
  [/_ms$/, (value) => (value % 1000 === 0 ? seconds(value / 1000) : `${count(value)} ms`)],
  [/(_s|^max_ttl)$/, (value) => seconds(value)],
];
// What 0 means, where that is not none of it.
const ZERO = {
  partition_count: "not partitioned",
  max_msg_spool_usage: "the last value only",
  max_redelivery_count: "no limit",
  max_ttl: "no limit",
  consumer_ack_timeout_ms: "no limit",
  expires_unbound_s: "never",
  retention_time_s: "–",
  retention_size_mb: "–",
};

const UNIT = /_(ms|s|mb)$/;
const WORDS = { max: "maximum", msg: "message", msgs: "messages", ack: "acknowledgement", id: "ID", qos: "QoS", url: "URL", urls: "URLs", vpns: "VPNs" };
const WORD = new RegExp(`\\b(${Object.keys(WORDS).join("|")})\\b`, "g");

/** The name of an attribute as words; without the unit if its value has it. */
export function attributeName(name, { withUnit = false } = {}) {
  return h("span", { title: name }, words(withUnit ? name.replace(UNIT, " ($1)") : name.replace(UNIT, "")).replaceAll(WORD, (each) => WORDS[each]));
}

/** The value of an attribute with its unit. */
export function attributeValue(name, value) {
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (value === "") return "–";
  if (typeof value !== "number") return String(value);
  if (value === 0 && ZERO[name]) return ZERO[name];
  const form = FORMS.find(([pattern]) => pattern.test(name));
  return form ? form[1](value) : count(value);
}

function seconds(number) {
  const units = [["d", 86_400], ["h", 3600], ["min", 60]];
  const whole = units.find(([, length]) => number >= length && number % length === 0);
  return whole ? `${count(number / whole[1])} ${whole[0]}` : `${count(number)} s`;
}
