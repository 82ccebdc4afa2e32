// One queue: its rates and backlog, partitions, flows, and definition.

import { get, latest, patch, post, queuePath, remove } from "../../api/admin.js";
import { Rates } from "../../api/rates.js";
import { actionButton, refusal, seesNode } from "../../widgets/access.js";
import { attributeFields, changedAttributes } from "../../widgets/attributes.js";
import { Tile, bar } from "../../widgets/charts.js";
import { ask, askToDelete, attempt, notice } from "../../widgets/dialogs.js";
import { OF_QUEUE } from "../../widgets/drawn.js";
import { facts, h, numberOf, setText } from "../../widgets/elements.js";
import { LiveTable } from "../../widgets/table.js";
import { TimeCharts } from "../../widgets/time-charts.js";
import { attributeName, attributeValue } from "../../widgets/units.js";
import { count, counted, moment, protocolName, rate, size, words } from "../../widgets/words.js";
import { clientAddress } from "../clients/clients.js";
import { linkAddress } from "../network/network.js";
import { Cursors } from "./cursors.js";
import { queueAddress } from "./figures.js";
import { PartitionPicture } from "./partitions.js";
import { queueNames } from "./queues.js";

const MEGABYTE = 1024 * 1024; // of the quota

/**
 * The consumer of a partition or flow, with a link to its page, or to the network link behind which it is connected: it is
 * then NAME@BROKER. Network links themselves, and the clients of a queue at another broker, have no page here.
 */
function consumer({ client, isHere, broker, of_machine: isOfMachine }) {
  if (!client || !isHere || client.startsWith("#link/")) return client ?? "–";
  if (!broker) return page(clientAddress(client), client);
  const name = client.slice(0, -(broker.length + 1));
  if (isOfMachine) return page(clientAddress(name), client);
  return seesNode() ? h("span", {}, `${name}@`, page(linkAddress(broker), broker)) : client;
}

const page = (address, text) => h("a", { href: address, tabindex: -1 }, text);

const PARTITION_COLUMNS = [
  { title: "No.", value: (each) => each.number, numeric: true },
  { title: "Status", value: (each) => each.status },
  { title: "Client", value: (each) => each.client ?? "–", cell: consumer },
  { title: "Ready", value: (each) => each.ready_count, cell: (each) => count(each.ready_count), numeric: true },
  { title: "Unacked", value: (each) => each.unacked_count, cell: (each) => count(each.unacked_count), numeric: true },
  { title: "Held", about: "Messages that wait, after a change of the number of partitions, for older ones of the former partition", value: (each) => each.held_count, cell: (each) => count(each.held_count), numeric: true, wide: true },
  { title: "Spooled", value: (each) => each.spooled_bytes, cell: (each) => size(each.spooled_bytes), numeric: true, wide: true },
  { title: "Next sequence", about: "Number that the next message gets", value: (each) => each.next_sequence, cell: (each) => count(each.next_sequence), numeric: true, wide: true },
  { title: "Epoch", about: "How often the partition was given to a consumer", value: (each) => each.assignment_epoch, numeric: true, wide: true },
];

const FLOW_COLUMNS = [
  { title: "Client", value: (each) => each.client, cell: consumer },
  { title: "Protocol", value: (each) => protocolName(each.protocol), wide: true },
  { title: "Activity", value: (each) => each.activity, wide: true },
  { title: "Unacked", value: (each) => each.unacked_count, cell: (each) => bar(each.unacked_count, each.window, `${count(each.unacked_count)} of ${count(each.window)}`) },
  { title: "Partitions", value: (each) => each.partitions.join(", ") || "–" },
  { title: "Selector", value: (each) => each.selector ?? "–", wide: true },
  { title: "Flow", value: (each) => each.id, wide: true },
];

export function open(place, [name]) {
  const rates = new Rates();
  const tiles = { in: new Tile("In /s"), settled: new Tile("Settled /s"), ready: new Tile("Ready"), unacked: new Tile("Unacked") };
  const partitions = new LiveTable({ label: "Partitions", columns: PARTITION_COLUMNS, key: (each) => String(each.number), sort: { column: 0, descending: false } });
  const flows = new LiveTable({ label: "Flows", stacked: true, columns: FLOW_COLUMNS, key: (each) => each.id, sort: { column: 0, descending: false }, empty: "No consumer is bound." });
  const charts = new TimeCharts({ path: `history/queues/${encodeURIComponent(name)}`, drawn: OF_QUEUE });
  const picture = new PartitionPicture(name);
  const cursors = new Cursors(name);
  const about = h("p", { class: "quiet" });
  const spooled = h("div", { class: "gauges" });
  const move = h("p", { class: "health move", hidden: true });
  const redrive = h("p", { class: "health redrive", hidden: true });
  const losses = h("div");
  const definition = h("div");
  let broker = ""; // the neighbor that has the queue, and where it can be changed
  const changing = (act) => () => (broker ? notice(changedAt(broker), { wrong: true }) : act());
  const actions = {
    browse: () => (location.hash = queueAddress(name, "/messages")),
    edit: changing(() => attempt(() => edit(name))),
    redrive: changing(() => attempt(() => startRedrive(name))),
    replay: () => startReplay(name),
    purge: changing(() => purge(name)),
    delete: changing(() => deleteQueue(name)),
  };
  const replay = actionButton("Replay", actions.replay);
  const changes = [
    actionButton("Edit", actions.edit),
    actionButton("Re-drive", actions.redrive),
    actionButton("Purge", actions.purge, { kind: "danger" }),
    actionButton("Delete queue", actions.delete, { kind: "danger" }),
  ];
  const ofPartitions = h("section", { hidden: true }, whyKeyWaits(name), h("h2", {}, "Partitions"), partitions.element);
  const cursorsSection = h("section", {}, h("h2", {}, "Durable cursors"), cursors.element);
  place.append(
    h("p", { class: "trail" }, h("a", { href: "#/queues" }, "Queues"), " /"),
    h("h1", {}, name),
    about,
    h(
      "div",
      { class: "bar-of-tools" },
      h("button", { type: "button", class: "primary", onclick: actions.browse }, "Messages"),
      ...changes.slice(0, 2),
      replay,
      ...changes.slice(2),
    ),
    move,
    redrive,
    h("div", { class: "tiles" }, Object.values(tiles).map((each) => each.element)),
    spooled,
    charts.element,
    picture.element,
    ofPartitions,
    h("section", {}, h("h2", {}, "Flows"), flows.element),
    cursorsSection,
    h("section", {}, h("h2", {}, "Since the start"), losses),
    h("section", {}, h("h2", {}, "Definition"), definition),
  );

  async function refresh() {
    const view = await get(queuePath(name));
    const { config } = view;
    broker = view.of_machine ? "" : view.broker;
    // The re-drive is read each time, because another operator may have started one. Only the queue's broker knows it.
    // Brokers of earlier releases say nothing of their cursors to others.
    const known = cursors.refresh().then(() => true, (error) => (broker ? false : Promise.reject(error)));
    const [driven, hasCursors] = await Promise.all([broker ? null : latest(queuePath(name, "/redrive")), known]);
    cursorsSection.hidden = !hasCursors;
    if (broker) for (const each of changes) Object.assign(each, { disabled: true, title: changedAt(broker) });
    setText(about, [view.broker && `at broker ${view.broker}`, view.durable ? "durable" : "temporary", config.access_type, ...partitionWords(view), view.kept_bytes && `${size(view.kept_bytes)} kept for replay and cursors`].filter(Boolean).join(", "));
    const came = rates.add("in", view.accepted_total, view.at_ms);
    const went = rates.add("settled", view.settled_total, view.at_ms);
    tiles.in.show(rate(came), `${count(view.accepted_total)} in total`);
    tiles.settled.show(rate(went), `${count(view.settled_total)} in total`);
    if (refusal() === null) {
      replay.disabled = view.kept_bytes === 0;
      replay.title = replay.disabled ? "the queue keeps no settled messages" : "";
    }
    tiles.ready.show(count(view.ready_count), "waiting for a consumer");
    tiles.unacked.show(count(view.unacked_count), "with consumers");
    const quota = config.max_msg_spool_usage * MEGABYTE;
    spooled.replaceChildren(h("div", { class: "gauge" }, h("span", {}, "Spooled"), bar(view.spooled_bytes, quota, quota ? `${size(view.spooled_bytes)} of ${size(quota)}` : size(view.spooled_bytes))));
    const isHere = broker === "";
    const consumers = new Map(view.flows.map((each) => [each.id, { ...each, isHere }]));
    partitions.show(view.partitions.map((each) => ({ ...consumers.get(each.flow_id), ...each, isHere })));
    ofPartitions.hidden = !config.partition_count && view.partitions.length < 2;
    charts.element.hidden = Boolean(broker); // another broker keeps it
    await Promise.all([broker ? null : charts.refresh(), broker ? null : picture.show(view)]);
    flows.show([...consumers.values()]);
    losses.replaceChildren(facts(totals(view), { many: true }));
    const now = facts(defined(view), { many: true });
    if (!definition.firstChild?.isEqualNode(now)) definition.replaceChildren(now); // a selection in it stays
    move.hidden = !view.move;
    if (view.move) setText(move, moveText(view.move));
    redrive.hidden = driven === null;
    if (driven) showRedrive(redrive, name, driven);
  }

  const keys = [
    { key: "m", meaning: "messages", press: actions.browse },
    { key: "e", meaning: "edit the definition", press: actions.edit },
    { key: "d", meaning: "re-drive dead messages", press: actions.redrive },
    { key: "P", meaning: "purge", press: actions.purge },
  ];
  return { refresh, keys };
}

/** Why a queue of another broker cannot be changed here. */
export function changedAt(broker) {
  return `the queue is at broker ${broker}: change it there`;
}

/** A form that leads to why the messages of a key wait. */
function whyKeyWaits(name) {
  const key = h("input", { name: "key", placeholder: "customer-7", required: true, autocomplete: "off", "aria-label": "Partition key" });
  const made = h("form", { class: "bar-of-tools" }, h("label", {}, "Why does this key wait? ", key), h("button", {}, "Explain"));
  made.addEventListener("submit", (event) => {
    event.preventDefault();
    location.hash = `#/explain/key/${encodeURIComponent(name)}/${encodeURIComponent(key.value)}`;
  });
  return made;
}

/** How many partitions a queue has, and what is under way with them. */
function partitionWords({ config, rebalance_status: rebalance, scale_status: scale }) {
  const under = [["rebalance", rebalance], ["change of their number", scale]].filter(([, status]) => status !== "ready");
  const number = config.partition_count ? [counted(config.partition_count, "partition")] : [];
  return [...number, ...under.map(([what, status]) => `${what}: ${status}`)];
}

/** How far the move of a queue to another broker is. */
function moveText(move) {
  const moved = `${count(move.moved_count)} of ${counted(move.moved_count + move.left_count, "message")} moved`;
  const state = move.waits_for || (move.switching ? "publishers wait" : "goes on");
  return `Moving to broker ${move.broker} since ${moment(move.begun_ms)}, ${moved}, ${state}`;
}

function totals(view) {
  const named = Object.entries({ ...view.discards, ...view.bind_refusals }).filter(([, number]) => number > 0);
  const lines = [["accepted", view.accepted_total], ["delivered", view.delivered_total], ["redelivered", view.redelivered_total], ["settled", view.settled_total], ...named];
  return lines.map(([what, number]) => [words(what), count(number)]);
}

function defined(view) {
  const { name, ...attributes } = view.config;
  const lines = Object.entries(attributes).map(([attribute, value]) => [attributeName(attribute), attributeValue(attribute, value)]);
  return [["subscriptions", view.subscriptions.join("  ") || "–"], ...lines];
}

function showRedrive(line, name, driven) {
  const kept = Object.entries(driven.kept).map(([reason, number]) => `${number} not moved: ${words(reason)}`);
  const text = [`Re-drive since ${moment(driven.started_ms)} ${driven.state}`, `${count(driven.done_count)} done`, ...kept, driven.failure].filter(Boolean).join(", ");
  const stop = actionButton("Stop", () => attempt(() => remove(queuePath(name, "/redrive"))));
  line.replaceChildren(text, " ", driven.state === "running" ? stop : "");
}

async function startRedrive(name) {
  const names = await queueNames();
  const begun = await ask({
    title: `Re-drive ${name}`,
    text: "Dead messages are moved back, as they were published, to the queues that dead-lettered them.",
    confirm: "Re-drive",
    fields: [
      { name: "to", label: "To another queue instead", options: names },
      { name: "rate", label: "Messages per second", value: "0", hint: "0: as fast as possible" },
    ],
    action: ({ to, rate: perSecond }) => post(queuePath(name, "/redrive"), { rate: numberOf(perSecond || "0"), ...(to ? { to } : {}) }),
  });
  if (begun) notice(`The re-drive of ${name} has started`);
}

function startReplay(name) {
  return ask({
    title: `Replay ${name}`,
    text: "Settled messages that the queue keeps are delivered again, before newer ones.",
    confirm: "Replay",
    fields: [
      { name: "from", label: "From", value: "beginning", required: true, hint: "beginning, a sequence, or a time such as 2026-01-31T12:00:00Z" },
      { name: "to", label: "Stop before sequence", hint: "empty: all" },
      { name: "partition", label: "Partition", hint: "empty: all" },
    ],
    action: async ({ from, to, partition }) => {
      const body = { from, ...(to ? { to: numberOf(to) } : {}), ...(partition ? { partition: numberOf(partition) } : {}) };
      const { replayed_count: replayed } = await post(queuePath(name, "/replay"), body);
      notice(`${counted(replayed, "message")} of ${name} will be delivered again`);
    },
  });
}

async function definitionOf(name) {
  const { config, subscriptions } = await get(queuePath(name));
  return { ...config, subscriptions };
}

async function edit(name) {
  const before = await definitionOf(name);
  const changed = await ask({
    title: `Edit ${name}`,
    confirm: "Change",
    fields: await attributeFields("QueueChanges", before),
    action: async (values) => patch(queuePath(name), await changedAttributes("QueueChanges", before, values, await definitionOf(name))),
  });
  if (changed) notice(`${name} was changed`);
}

function purge(name) {
  return ask({
    title: `Purge ${name}?`,
    text: "All messages that are not delivered are removed. Messages that consumers hold stay.",
    confirm: "Purge",
    dangerous: true,
    action: async () => {
      const { purged_count: purged } = await post(queuePath(name, "/purge"));
      notice(`${counted(purged, "message")} removed from ${name}`);
    },
  });
}

function deleteQueue(name) {
  const text = "The queue is deleted with all its messages, and its consumers are unbound.";
  return askToDelete({ title: `Delete ${name}?`, text, path: queuePath(name), name }, () => {
    location.hash = "#/queues";
  });
}
