// What is drawn of each kind of object over time, with the units of the values.

import { count, size } from "./words.js";

const perSecond = (number) => `${short(number)} /s`;
const bytesPerSecond = (number) => `${size(Math.round(number))}/s`;

/** Format a number for an axis and its legend: three digits, and `k` or `M`. */
function short(number) {
  const absolute = Math.abs(number);
  if (absolute >= 1e6) return `${trimmed(number / 1e6)} M`;
  if (absolute >= 1e4) return `${trimmed(number / 1e3)} k`;
  return absolute >= 100 ? count(number) : trimmed(number);
}

function trimmed(number) {
  return String(Number(number.toPrecision(3)));
}

/** Format milliseconds. */
function time(milliseconds) {
  return milliseconds >= 1000 ? `${trimmed(milliseconds / 1000)} s` : `${trimmed(milliseconds)} ms`;
}

const MESSAGES = { title: "Messages", figures: [["messages_in", "in"], ["messages_out", "out"]], words: perSecond };
const BACKLOG = { title: "Backlog", figures: [["messages", "messages"]], words: short, steps: "whole" };
const BACKLOG_SIZE = { title: "Backlog in bytes", figures: [["messages_bytes", "spooled"]], words: size, steps: "bytes" };
const CONNECTIONS = { title: "Connections", figures: [["connections", "open"]], words: short, steps: "whole" };

export const OF_NODE = [
  MESSAGES,
  { title: "Traffic", figures: [["bytes_in", "in"], ["bytes_out", "out"]], words: bytesPerSecond, steps: "bytes" },
  { title: "Backlog", figures: [["messages", "messages"], ["unacked", "with consumers"]], words: short, steps: "whole" },
  { title: "Latency", figures: [["commit_ms", "commit"], ["confirmation_ms", "confirmation"], ["delivery_ms", "delivery"]], words: time },
  CONNECTIONS,
  { title: "Memory of the process", figures: [["memory_bytes", "resident"]], words: size, steps: "bytes" },
];

export const OF_VPN = [
  MESSAGES,
  BACKLOG,
  BACKLOG_SIZE,
  { title: "Latency", figures: [["delivery_ms", "publish to delivery"]], words: time },
  CONNECTIONS,
];

export const OF_CLIENT = [
  { title: "Messages", figures: [["received", "from it"], ["sent", "to it"]], words: perSecond },
  { title: "Traffic", figures: [["bytes_received", "from it"], ["bytes_sent", "to it"]], words: bytesPerSecond, steps: "bytes" },
  { title: "Unacknowledged messages", figures: [["unacked", "messages"]], words: short, steps: "whole" },
];

export const OF_QUEUE = [MESSAGES, BACKLOG, BACKLOG_SIZE];

export const OF_PARTITION = [MESSAGES, { title: "Backlog", figures: [["messages", "messages"], ["unacked", "with consumers"], ["held", "held"]], words: short, steps: "whole" }, BACKLOG_SIZE];
