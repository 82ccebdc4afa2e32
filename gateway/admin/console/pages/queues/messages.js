// The messages of a queue: browse, open, delete, move and copy.

import { get, post, queuePath } from "../../api/admin.js";
import { actionButton, refusal } from "../../widgets/access.js";
import { ask, attempt, notice } from "../../widgets/dialogs.js";
import { facts, h, setText } from "../../widgets/elements.js";
import { LiveTable } from "../../widgets/table.js";
import { count, counted, moment, size, words } from "../../widgets/words.js";
import { queueAddress } from "./figures.js";
import { changedAt } from "./queue.js";
import { queueNames } from "./queues.js";

const PAGE_MESSAGES = 100;
const IDS_MAX = 1000; // of one request, by the gateway
const HEAD_CHARS = 60; // of a payload, in the list

export function open(place, [name]) {
  const chosen = new Set(); // ids
  let after = 0; // sequence
  let asked = 0; // number of requests
  let opened = null; // id
  let shown = [];
  let broker = ""; // the neighbor that has the queue
  const table = new LiveTable({
    label: `Messages in ${name}`,
    columns: columns(choose),
    key: (each) => each.id,
    open: (each) => openMessage(opened === each.id ? null : each.id),
    empty: "No messages.",
  });
  const partition = h("input", { type: "number", min: 0, max: 999, placeholder: "all", "aria-label": "Partition" });
  const selector = h("input", { type: "search", placeholder: "Selector: price > 10", "aria-label": "Selector", class: "grow" });
  const about = h("p", { class: "quiet", hidden: true });
  const details = h("section", { class: "details", hidden: true });
  const closing = h("button", { type: "button", class: "close", onclick: () => openMessage(null) }, "Close");
  const chosenText = h("span", { class: "quiet" });
  const button = (label, press) => h("button", { type: "button", onclick: press }, label);
  const actions = ["Move", "Copy", "Delete"].map((action) => actionButton(action, () => take(action), { kind: action === "Delete" ? "danger" : null }));
  const first = button("First page", () => go(0));
  const next = button("Next page", () => go(shown.at(-1)?.sequence ?? 0));
  place.append(
    h("p", { class: "trail" }, h("a", { href: "#/queues" }, "Queues"), " / ", h("a", { href: queueAddress(name) }, name), " /"),
    h("h1", {}, "Messages"),
    about,
    h("div", { class: "bar-of-tools" }, h("label", {}, "Partition ", partition), selector),
    h("div", { class: "bar-of-tools" }, ...actions, button("All on this page", chooseAll), chosenText),
    table.element,
    h("div", { class: "bar-of-tools" }, first, next),
    details,
  );
  for (const input of [partition, selector]) input.addEventListener("change", () => go(0));

  async function refresh() {
    asked += 1;
    const mine = asked;
    const query = { partition: partition.value, selector: selector.value.trim(), after, limit: PAGE_MESSAGES };
    const [found, queue] = await Promise.all([get(queuePath(name, "/messages"), query), get(queuePath(name))]);
    if (mine !== asked) return; // another page was requested meanwhile
    shown = found.messages;
    broker = queue.of_machine ? "" : queue.broker;
    about.hidden = queue.broker === "";
    setText(about, `at broker ${queue.broker}`);
    const there = new Set(shown.map((each) => each.id));
    for (const id of chosen) if (!there.has(id)) chosen.delete(id);
    table.show(shown);
    first.disabled = after === 0;
    // A page starts after a sequence, and each partition has its own sequences: paging needs a single partition.
    const ofAll = queue.partitions.length > 1 && query.partition === "";
    next.disabled = shown.length < PAGE_MESSAGES || ofAll;
    next.title = ofAll ? "choose a partition to see the next page" : "";
    tellChosen();
    if (!there.has(opened)) opened = null;
    showDetails();
  }

  function go(sequence) {
    after = sequence;
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
    setText(chosenText, chosen.size ? `${count(chosen.size)} chosen` : "none chosen");
    const why = broker ? changedAt(broker) : (refusal() ?? "");
    for (const each of actions) Object.assign(each, { disabled: chosen.size === 0 || why !== "", title: why });
  }

  function openMessage(id) {
    opened = id;
    showDetails();
  }

  function showDetails() {
    const message = shown.find((each) => each.id === opened);
    details.hidden = !message;
    if (message && details.dataset.id !== message.id) details.replaceChildren(closing, ...contents(message));
    details.dataset.id = message?.id ?? "";
  }

  async function take(action) {
    const ids = [...chosen].slice(0, IDS_MAX);
    if (!ids.length || broker) return;
    await attempt(async () => {
      if (!(await takeMessages(action, name, ids))) return;
      chooseNone();
      await refresh();
    });
  }

  const chooseRow = () => document.activeElement?.closest("tr")?.querySelector("input[type=checkbox]")?.click();
  const keys = [
    { key: "x", meaning: "choose the message", press: chooseRow },
    { key: "a", meaning: "choose all on this page, or none", press: chooseAll },
    { key: "m", meaning: "move", press: () => take("Move") },
    { key: "c", meaning: "copy", press: () => take("Copy") },
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
    { title: "Payload", value: head, wide: true },
    { title: "Size", value: (each) => each.size_bytes, cell: (each) => size(each.size_bytes), numeric: true, wide: true },
    { title: "Deliveries", value: (each) => each.delivery_count, numeric: true, wide: true },
    { title: "Dead-letter reason", value: (each) => (each.dead ? words(each.dead.reason) : "–"), wide: true },
    { title: "Received", value: (each) => each.received_ms, cell: (each) => moment(each.received_ms), wide: true },
  ];
}

function head(message) {
  if (message.payload_encoding !== "text") return "(binary)";
  const line = message.payload.slice(0, HEAD_CHARS).replaceAll(/\s+/g, " ");
  return line.length < message.payload.length ? `${line}…` : line;
}

function contents(message) {
  const lines = [
    ["topic", message.topic],
    ["key", message.key ?? "–"],
    ["partition", String(message.partition)],
    ["sequence", String(message.sequence)],
    ["received", moment(message.received_ms)],
    ["deliveries", String(message.delivery_count)],
    ["size", `${count(message.size_bytes)} B`],
  ];
  const dead = message.dead;
  if (dead) {
    lines.push(["dead-letter reason", `${words(dead.reason)}${dead.cause ? `: ${dead.cause}` : ""}`]);
    lines.push(["dead-lettered from", `${dead.queue}, partition ${dead.partition}, ${moment(dead.time_ms)}, deliveries: ${dead.delivery_count}`]);
    if (dead.client) lines.push(["last consumer", dead.client]);
  }
  const encoding = message.payload_encoding === "text" ? "" : ", base64";
  const note = message.payload_truncated ? ", truncated" : "";
  return [h("h2", {}, `Message ${message.id}`), facts(lines), h("h3", {}, `Payload${encoding}${note}`), h("pre", { tabindex: 0 }, message.payload)];
}

/** Ask for confirmation or a target queue, and delete, move or copy these messages. */
async function takeMessages(action, name, ids) {
  const what = counted(ids.length, "message");
  const asked =
    action === "Delete"
      ? { title: `Delete ${what}?`, text: "Messages that a consumer holds stay.", dangerous: true }
      : { title: `${action} ${what}`, fields: [{ name: "to", label: "To queue", required: true, options: await queueNames() }] };
  return ask({
    ...asked,
    confirm: action,
    action: async (values) => {
      const taken = await post(queuePath(name, `/messages/${action.toLowerCase()}`), { ids, ...values });
      notice(outcome(action, taken), { wrong: taken.done_count < ids.length });
    },
  });
}

const DONE = { Move: "moved", Copy: "copied", Delete: "deleted" };

function outcome(action, taken) {
  const kept = Object.entries(taken.kept).map(([reason, number]) => `${number} not changed: ${words(reason)}`);
  if (taken.not_found.length) kept.push(`${taken.not_found.length} not found`);
  return [`${count(taken.done_count)} ${DONE[action]}`, ...kept].join(", ");
}
