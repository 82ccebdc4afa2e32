// The messages of a queue: browse, open, delete, move and copy.

import { get, post, queuePath } from "../../api/admin.js";
import { actionButton, refusal } from "../../widgets/access.js";
import { ask, attempt, notice } from "../../widgets/dialogs.js";
import { facts, h, setText } from "../../widgets/elements.js";
import { payloadView } from "../../widgets/payload.js";
import { LiveTable } from "../../widgets/table.js";
import { count, counted, moment, size, words } from "../../widgets/words.js";
import { queueAddress } from "./figures.js";
import { changedAt } from "./queue.js";
import { queueNames } from "./queues.js";

const PAGE_MESSAGES = 100;
const START = "0:0"; // the position before every message
const SCAN_MAX = 10_000; // messages that one request examines
const FILTERED_MS = 10_000; // between two requests of the same search, which may examine many messages
const IDS_MAX = 1000; // of one request, by the gateway
const QUEUE_REPLY = /^#q\//; // of a reply address that is a queue
const QOS = ["0 (at most once)", "1 (at least once)", "2 (exactly once)"];
const HEAD_CHARS = 60; // of a payload, in the list

export function open(place, [name], head) {
  const chosen = new Set(); // ids
  let position = START; // of the page
  let next = null; // position of the next page; null: there is none
  let searched = { query: "", atMs: 0 };
  let asked = 0; // number of requests
  let opened = null; // id
  let from = null; // the row from which it was opened with the keyboard
  let shown = [];
  let broker = ""; // the neighbor that has the queue
  const table = new LiveTable({
    label: `Messages in ${name}`,
    columns: columns(choose),
    key: (each) => each.id,
    open: (each) => openMessage(opened === each.id ? null : each.id),
    empty: "No messages. Publish & watch sends one to a queue.",
  });
  const partition = h("input", { type: "number", min: 0, max: 999, placeholder: "all", "aria-label": "Partition" });
  const input = (label, placeholder, more = {}) => h("input", { type: "search", placeholder, "aria-label": label, ...more });
  const key = input("Key", "Key: customer-7");
  const topic = input("Topic", "Topic: orders/#");
  const selector = input("Selector", "Properties: price > 10 AND region = 'eu'", { class: "grow" });
  const since = h("input", { type: "datetime-local", step: 1 });
  const until = h("input", { type: "datetime-local", step: 1 });
  const conditions = [partition, key, topic, selector, since, until];
  const result = h("p", { class: "quiet", role: "status" });
  const about = h("p", { class: "quiet", hidden: true });
  const details = h("section", { class: "details", hidden: true, tabindex: -1, "aria-label": "Message" });
  const closing = h("button", { type: "button", class: "close", onclick: () => openMessage(null) }, "Close");
  const chosenText = h("span", { class: "quiet" });
  const button = (label, press) => h("button", { type: "button", onclick: press }, label);
  const actions = ["Move", "Copy", "Republish", "Bring back", "Delete"].map((action) => actionButton(action, () => take(action), { kind: action === "Delete" ? "danger" : null }));
  const first = button("First page", () => go(START));
  const goOn = button("Next page", () => go(next));
  head.append(
    h("p", { class: "trail" }, h("a", { href: "#/queues" }, "Queues"), " / ", h("a", { href: queueAddress(name) }, name), " /"),
    h("h1", {}, "Messages"),
    about,
    h("div", { class: "bar-of-tools" }, h("label", {}, "Partition ", partition), key, topic, selector),
    h("div", { class: "bar-of-tools" }, h("label", {}, "Received since ", since), h("label", {}, "until ", until), button("Clear", clear), result),
  );
  place.append(
    h("div", { class: "bar-of-tools" }, ...actions, button("All on this page", chooseAll), chosenText),
    table.element,
    h("div", { class: "bar-of-tools" }, first, goOn),
    details,
  );
  tellChosen();
  for (const each of conditions) each.addEventListener("change", () => go(START));

  async function refresh() {
    asked += 1;
    const mine = asked;
    const query = { ...wanted(), position, limit: PAGE_MESSAGES, scan: SCAN_MAX };
    const isSame = searched.query === JSON.stringify(query) && Date.now() - searched.atMs < FILTERED_MS;
    if (isFiltered() && isSame) return;
    searched = { query: JSON.stringify(query), atMs: Date.now() };
    const [found, queue] = await Promise.all([get(queuePath(name, "/search"), query), get(queuePath(name))]);
    if (mine !== asked) return; // another page was requested meanwhile
    next = found.position;
    setText(result, resultWords(found));
    shown = found.messages;
    broker = queue.of_machine ? "" : queue.broker;
    about.hidden = queue.broker === "";
    setText(about, `at broker ${queue.broker}`);
    const there = new Set(shown.map((each) => each.id));
    for (const id of chosen) if (!there.has(id)) chosen.delete(id);
    table.show(shown);
    first.disabled = position === START;
    goOn.disabled = next === null;
    setText(goOn, shown.length < PAGE_MESSAGES && next !== null ? "Search on" : "Next page");
    tellChosen();
    if (!there.has(opened)) opened = null;
    showDetails();
  }

  function wanted() {
    const time = (field) => (field.value ? new Date(field.value).toISOString() : "");
    return {
      partition: partition.value,
      key: key.value.trim(),
      topic: topic.value.trim(),
      selector: selector.value.trim(),
      received_from: time(since),
      received_until: time(until),
    };
  }

  const isFiltered = () => Object.entries(wanted()).some(([condition, value]) => condition !== "partition" && value !== "");

  function resultWords(found) {
    if (!isFiltered()) return "";
    const said = `${counted(found.messages.length, "message")} found, ${count(found.scanned_count)} examined`;
    return found.position === null ? said : `${said}; there are more to examine`;
  }

  function clear() {
    for (const each of conditions) each.value = "";
    go(START);
  }

  function go(to) {
    position = to;
    searched = { query: "", atMs: 0 };
    chooseNone();
    attempt(refresh);
  }

  function choose(id, wanted) {
    if (wanted) chosen.add(id);
    else chosen.delete(id);
    tellChosen();
  }

  const boxes = () => table.element.querySelectorAll("input[type=checkbox]");

  function chooseAll() {
    const every = chosen.size < shown.length;
    for (const box of boxes()) {
      box.checked = every;
      choose(box.value, every);
    }
  }

  function chooseNone() {
    for (const box of boxes()) box.checked = false;
    chosen.clear();
    tellChosen();
  }

  function tellChosen() {
    setText(chosenText, chosen.size ? `${count(chosen.size)} selected` : "no message is selected");
    const why = broker ? changedAt(broker) : (refusal() ?? "");
    for (const each of actions) Object.assign(each, { disabled: chosen.size === 0 || why !== "", title: why });
    const dead = shown.some((each) => chosen.has(each.id) && each.dead);
    if (!dead) Object.assign(actions[3], { disabled: true, title: why || "no dead message is selected" });
  }

  /** Show a message, or none. Who opened it with the keyboard is led to it, and then back to its row. */
  function openMessage(id) {
    const isRow = document.activeElement?.matches("tr:focus-visible");
    if (isRow) from = document.activeElement;
    const wasInside = details.contains(document.activeElement);
    opened = id;
    showDetails();
    if (id !== null && isRow) details.focus();
    if (id === null && wasInside) from?.focus();
  }

  function showDetails() {
    const message = shown.find((each) => each.id === opened);
    details.hidden = !message;
    if (message && details.dataset.id !== message.id) details.replaceChildren(closing, ...contents(message, name));
    details.dataset.id = message?.id ?? "";
  }

  async function take(action) {
    const ids = [...chosen].slice(0, IDS_MAX);
    if (!ids.length || broker) return;
    await attempt(async () => {
      if (!(await takeMessages(action, name, ids))) return;
      searched = { query: "", atMs: 0 };
      chooseNone();
      await refresh();
    });
  }

  const chooseRow = () => document.activeElement?.closest("tr")?.querySelector("input[type=checkbox]")?.click();
  const keys = [
    { key: "x", meaning: "select the message", press: chooseRow },
    { key: "a", meaning: "select all on this page, or none", press: chooseAll },
    { key: "m", meaning: "move", press: () => take("Move") },
    { key: "c", meaning: "copy", press: () => take("Copy") },
    { key: "R", meaning: "publish again", press: () => take("Republish") },
    { key: "b", meaning: "bring dead ones back", press: () => take("Bring back") },
    { key: "Delete", meaning: "delete", press: () => take("Delete") },
  ];
  return { refresh, keys, back: () => opened !== null && (openMessage(null), true) };
}

function columns(choose) {
  const box = (each) => h("input", { type: "checkbox", value: each.id, "aria-label": `Choose ${each.id}`, onchange: (event) => choose(each.id, event.target.checked) });
  return [
    { title: "", value: (each) => each.id, cell: box },
    { title: "Id", value: (each) => each.id },
    { title: "Topic", value: (each) => each.topic },
    { title: "Key", value: (each) => each.key ?? "–" },
    { title: "Payload", value: payloadHead, wide: true },
    { title: "Size", value: (each) => each.size_bytes, cell: (each) => size(each.size_bytes), numeric: true, wide: true },
    { title: "Deliveries", value: (each) => each.delivery_count, numeric: true, wide: true },
    { title: "Dead-letter reason", value: (each) => (each.dead ? words(each.dead.reason) : "–"), wide: true },
    { title: "Received", value: (each) => each.received_ms, cell: (each) => moment(each.received_ms), wide: true },
  ];
}

function payloadHead(message) {
  if (message.payload_encoding !== "text") return "(binary)";
  const line = message.payload.slice(0, HEAD_CHARS).replaceAll(/\s+/g, " ");
  return line.length < message.payload.length ? `${line}…` : line;
}

function contents(message, queue) {
  const note = message.payload_truncated ? ", its beginning" : "";
  const explained = ["message", queue, message.topic, message.key ?? ""].map(encodeURIComponent).join("/");
  const why = h("p", {}, h("a", { class: "button", href: `#/explain/${explained}` }, "Explain this message"));
  return [
    h("h2", {}, `Message ${message.id}`),
    why,
    facts([...placeLines(message), ...propertyLines(message.properties), ...deathLines(message.dead)]),
    ...userProperties(message.properties),
    h("h3", {}, `Payload${note}`),
    payloadView(message.payload, message.payload_encoding),
  ];
}

function placeLines(message) {
  const again = message.delivery_count > 1 ? `, redelivered ${counted(message.delivery_count - 1, "time")}` : "";
  return [
    ["topic", message.topic],
    ["partition key", message.key ?? "–"],
    ["partition", String(message.partition)],
    ["sequence", String(message.sequence)],
    ["received", moment(message.received_ms)],
    ["publisher", message.publisher || "not known"],
    ["QoS", QOS[message.qos]],
    ["deliveries", `${count(message.delivery_count)}${again}`],
    ["payload size", `${count(message.size_bytes)} B`],
  ];
}

/** Return what protocols carry beside the payload, as far as the message has it. */
function propertyLines(properties) {
  const time = (ms) => (ms === null ? null : moment(ms));
  const lines = [
    ["content type", properties.content_type],
    ["message ID", properties.message_id],
    ["correlation ID", properties.correlation_id],
    ["reply to", properties.reply_to?.replace(QUEUE_REPLY, "queue ") ?? null],
    ["reply-to group ID", properties.reply_to_group_id],
    ["user ID", properties.user_id],
    ["sent", time(properties.sent_ms)],
    ["expires", time(properties.expires_ms) ?? "never"],
    ["not delivered before", time(properties.not_before_ms)],
    ["priority", String(properties.priority)],
    ["DMQ eligible", properties.dmq_eligible ? "yes" : null],
  ];
  return lines.filter(([, value]) => value !== null);
}

function deathLines(dead) {
  if (!dead) return [];
  const lines = [
    ["dead-letter reason", `${words(dead.reason)}${dead.cause ? `: ${dead.cause}` : ""}`],
    ["dead-lettered from", `${dead.queue}, partition ${dead.partition}, ${moment(dead.time_ms)}, deliveries: ${dead.delivery_count}`],
  ];
  if (dead.client) lines.push(["last consumer", dead.client]);
  if (dead.via.length) lines.push(["since then in", dead.via.join(", ")]);
  return lines;
}

function userProperties({ user_properties: pairs, truncated: isCut }) {
  const note = isCut ? h("p", { class: "quiet" }, "Of the properties of this message the beginning is shown.") : "";
  return [h("h3", {}, "User properties"), pairs.length ? facts(pairs, { verbatim: true }) : h("p", { class: "quiet" }, "None."), note];
}

/** Ask for confirmation or a target queue, and delete, move or copy these messages. */
async function takeMessages(action, name, ids) {
  const what = counted(ids.length, "message");
  return ask({
    ...(await question(action, what)),
    confirm: action,
    action: async (values) => {
      const taken = await post(queuePath(name, `/messages/${PATHS[action]}`), { ids, ...given(values) });
      notice(outcome(action, taken), { wrong: taken.done_count < ids.length });
    },
  });
}

const PATHS = { Move: "move", Copy: "copy", Republish: "republish", "Bring back": "redrive", Delete: "delete" };
const DONE = { Move: "moved", Copy: "copied", Republish: "published again", "Bring back": "brought back", Delete: "deleted" };

/** Return what a dialog asks before an action. */
async function question(action, what) {
  if (action === "Delete") return { title: `Delete ${what}?`, text: "Messages that a consumer holds stay.", dangerous: true };
  if (action === "Republish") {
    const choices = ["keep them here", "delete them here when they are safe"];
    return {
      title: `Publish ${what} again`,
      text: "Each goes to the topic or queue that it was published to, without its dead-letter reason. One that no queue would get stays.",
      fields: [{ name: "remove", label: "Then", choices, value: choices[0] }],
    };
  }
  const to = { name: "to", label: "To queue", required: true, options: await queueNames() };
  if (action !== "Bring back") return { title: `${action} ${what}`, fields: [to] };
  return {
    title: `Bring ${what} back`,
    text: "Dead messages go back, as they were published, to the queues that dead-lettered them.",
    fields: [{ ...to, label: "To another queue instead", required: false }],
  };
}

/** Return the values of a dialog as the gateway takes them; empty ones are omitted. */
function given({ to, remove }) {
  return { ...(to ? { to } : {}), ...(remove ? { remove: remove.startsWith("delete") } : {}) };
}

function outcome(action, taken) {
  const kept = Object.entries(taken.kept).map(([reason, number]) => `${number} not changed: ${words(reason)}`);
  if (taken.not_found.length) kept.push(`${taken.not_found.length} not found`);
  return [`${count(taken.done_count)} ${DONE[action]}`, ...kept].join(", ");
}
