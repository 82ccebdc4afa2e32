// Attributes as people read and write them: names as words, values with their units. The exact name is the title.

import { BYTES, MEBIBYTES, MILLISECONDS, SECONDS } from "./amounts.js";
import { h } from "./elements.js";
import { count, words } from "./words.js";

const AMOUNTS = [
  [/^(max_msg_size|maximum_packet_size)$|_bytes(_max)?$/, BYTES],
  [/^(max_msg_spool_usage|retention_size_mb)$/, MEBIBYTES],
  [/_ms$/, MILLISECONDS],
  [/(_s|^max_ttl)$/, SECONDS],
];
// What 0 means, where that is not none of it.
const ZERO = {
  partition_count: "not partitioned",
  max_msg_spool_usage: "the last value only",
  max_msg_rate: "no limit",
  max_redelivery_count: "no limit",
  max_ttl: "no limit",
  retry_count: "no limit",
  consumer_ack_timeout_ms: "no limit",
  expires_unbound_s: "never",
  retention_time_s: "–",
  retention_size_mb: "–",
};

const UNIT = /_(ms|s|mb)$/;
const WORDS = { max: "maximum", msg: "message", msgs: "messages", ack: "acknowledgement", id: "ID", qos: "QoS", url: "URL", urls: "URLs", vpns: "VPNs" };
const WORD = new RegExp(`\\b(${Object.keys(WORDS).join("|")})\\b`, "g");

/** The name of an attribute as words, without a unit: its value has it. */
export function attributeName(name) {
  return h("span", { title: name }, attributeText(name));
}

/** The same as a text. */
export function attributeText(name) {
  return words(name.replace(UNIT, "")).replaceAll(WORD, (each) => WORDS[each]);
}

/** The kind of amount that an attribute is; undefined for other values. */
export function amountOf(name) {
  return AMOUNTS.find(([pattern]) => pattern.test(name))?.[1];
}

/** What 0 means for an attribute; undefined: none of it. */
export function zeroWords(name) {
  return ZERO[name];
}

/** The value of an attribute with its unit. */
export function attributeValue(name, value) {
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (value === "") return "–";
  if (typeof value !== "number") return String(value);
  if (value === 0 && ZERO[name]) return ZERO[name];
  if (name === "redelivery_delay_multiplier") return `${value} %`;
  return (Number.isInteger(value) && amountOf(name)?.write(value)) || count(value);
}
