// One client: its connections with what their protocols agreed on, the messages that it holds, its subscriptions.

import { get, remove } from "../../api/admin.js";
import { Rates } from "../../api/rates.js";
import { actionButton } from "../../widgets/access.js";
import { bar } from "../../widgets/charts.js";
import { ask, attempt, notice } from "../../widgets/dialogs.js";
import { OF_CLIENT } from "../../widgets/drawn.js";
import { facts, h, setText } from "../../widgets/elements.js";
import { LiveTable } from "../../widgets/table.js";
import { GatheredCharts } from "../../widgets/time-charts.js";
import { count, counted, duration, moment, protocolName, size } from "../../widgets/words.js";
import { queueAddress } from "../queues/figures.js";
import { CLIENTS } from "./clients.js";
import { sessionAddress } from "./sessions.js";
import { DELIVER_TO_ONE } from "./subscriptions.js";
import { ClientTrace } from "./trace.js";

const SUBSCRIPTIONS_MAX = 500; // that a page shows
const SUBSCRIPTIONS_MS = 30_000; // between two requests

const FLOW_COLUMNS = [
  { title: "Queue", value: (each) => each.queue, cell: (each) => h("a", { href: queueAddress(each.queue), tabindex: -1 }, each.queue) },
  { title: "Protocol", value: (each) => protocolName(each.flow.protocol), wide: true },
  { title: "Activity", value: (each) => each.flow.activity, wide: true },
  { title: "Unacked", value: (each) => each.flow.unacked_count, cell: (each) => bar(each.flow.unacked_count, each.flow.window, `${count(each.flow.unacked_count)} of ${count(each.flow.window)}`) },
  { title: "Partitions", value: (each) => each.flow.partitions.join(", ") || "–", wide: true },
  { title: "Selector", value: (each) => each.flow.selector ?? "–", wide: true },
];

const LINK_COLUMNS = [
  { title: "Link", value: (each) => each.name },
  { title: "Client is", value: (each) => each.role },
  { title: "Address", value: (each) => each.address ?? "(anonymous)" },
  { title: "State", value: (each) => each.state },
  { title: "Credit", value: (each) => each.credit, cell: (each) => count(each.credit), numeric: true },
  { title: "Deliveries", value: (each) => each.delivery_count, cell: (each) => count(each.delivery_count), numeric: true },
  { title: "Settlement", value: (each) => each.settle_mode, wide: true },
];

const PUBLISHER_COLUMNS = [
  { title: "Publisher", value: (each) => each.name || "(anonymous)" },
  { title: "Epoch", value: (each) => each.epoch, numeric: true },
  { title: "Window", value: (each) => each.window, numeric: true },
  { title: "Received through", value: (each) => each.received_through, cell: (each) => count(each.received_through), numeric: true },
  { title: "Answered through", value: (each) => each.answered_through, cell: (each) => count(each.answered_through), numeric: true },
  { title: "Unanswered", value: (each) => each.unanswered_count, cell: (each) => count(each.unanswered_count), numeric: true },
];

/** Return the part of a page with the subscriptions of a client or session, which are read seldom, or by a button. */
export function subscriptionsOf(name) {
  const total = h("span", { class: "quiet" });
  const table = subscriptionTable();
  let readMs = 0;

  async function read() {
    const found = await get(`${CLIENTS}/${encodeURIComponent(name)}/subscriptions`, { limit: SUBSCRIPTIONS_MAX });
    readMs = Date.now();
    table.show(found.subscriptions);
    setText(total, `(${count(found.total_count)})`);
  }

  const again = h("button", { type: "button", onclick: () => attempt(read) }, "Read subscriptions again");
  return {
    element: h("section", {}, h("h2", {}, "Subscriptions ", total), h("div", { class: "bar-of-tools" }, again), table.element),
    refresh: async () => {
      if (Date.now() - readMs >= SUBSCRIPTIONS_MS) await read();
    },
  };
}

function subscriptionTable() {
  return new LiveTable({
    label: "Subscriptions",
    columns: [
      { title: "Subscription", value: (each) => each.subscription },
      { title: "QoS", value: (each) => each.qos ?? "–", numeric: true },
      { title: "Queue", value: (each) => each.queue ?? "–", wide: true },
      DELIVER_TO_ONE,
      { title: "Options", value: optionWords, wide: true, long: true },
      { title: "Selector", value: (each) => each.selector ?? "–", wide: true },
    ],
    key: (each) => `${each.subscription} ${each.queue ?? ""} ${each.dto_priority}`,
    empty: "It has no subscriptions to topics.",
  });
}

export function open(place, [name]) {
  const path = `${CLIENTS}/${encodeURIComponent(name)}`;
  const about = h("p", { class: "quiet" });
  const connections = h("div");
  const flows = new LiveTable({ label: "Flows", stacked: true, columns: FLOW_COLUMNS, key: flowKey, empty: "It consumes from no queue, and holds no messages." });
  const subscriptions = subscriptionsOf(name);
  const charts = new GatheredCharts({ drawn: OF_CLIENT, label: "Since this page is open" });
  const rates = new Rates();
  const trace = new ClientTrace({ request: () => ({ path: `${path}/trace` }) });
  const session = h("a", { href: sessionAddress(name), hidden: true }, "MQTT session");
  place.append(
    h("p", { class: "trail" }, h("a", { href: `#/${CLIENTS}` }, "Clients"), " /"),
    h("h1", {}, name),
    about,
    h("div", { class: "bar-of-tools" }, actionButton("Disconnect", disconnect, { kind: "danger" }), session),
    charts.element,
    connections,
    h("section", {}, h("h2", {}, "Flows and unacknowledged messages"), flows.element),
    subscriptions.element,
    trace.element,
  );

  async function refresh() {
    const view = await get(path);
    const atMs = Date.now();
    const its = flowsOf(view.connections);
    const held = its.reduce((sum, each) => sum + each.flow.unacked_count, 0);
    setText(about, `${counted(view.connections.length, "connection")}, ${counted(held, "unacknowledged message")}`);
    session.hidden = !view.connections.some((each) => each.client.protocol.startsWith("mqtt"));
    const rateOf = (figure) => rates.add(figure, view.connections.reduce((sum, each) => sum + each.client[figure], 0), atMs);
    charts.add(atMs, {
      received: rateOf("messages_received"),
      sent: rateOf("messages_sent"),
      bytes_received: rateOf("bytes_received"),
      bytes_sent: rateOf("bytes_sent"),
      unacked: held,
    });
    showConnections(view.connections);
    flows.show(its);
    await subscriptions.refresh();
  }

  function showConnections(views) {
    const made = h("div", {}, views.map(connection));
    if (!connections.firstChild?.isEqualNode(made)) connections.replaceChildren(made);
  }

  async function disconnect() {
    const gone = await ask({
      title: `Disconnect ${name}?`,
      text: "All its connections end. Messages that it holds unacknowledged are delivered again. It may connect again at once; shut its user down to keep it away.",
      confirm: "Disconnect",
      dangerous: true,
      action: () => remove(path),
    });
    if (!gone) return;
    notice(`${name} was disconnected`);
    location.hash = `#/${CLIENTS}`;
  }

  return {
    refresh,
    close: () => trace.stop(),
    keys: [
      { key: "t", meaning: "follow its packets, or stop", press: () => trace.toggle() },
      { key: "Delete", meaning: "disconnect", press: () => attempt(disconnect) },
    ],
  };
}

const flowKey = (each) => `${each.broker} ${each.queue} ${each.flow.id}`;

/** Return the flows of a client, each once: all its connections of a protocol have the same ones. */
function flowsOf(connections) {
  const found = connections.flatMap(({ broker, flows }) => flows.map((each) => ({ ...each, broker })));
  return [...new Map(found.map((each) => [flowKey(each), each])).values()];
}

function connection(view) {
  const { client } = view;
  const parts = [h("h2", {}, `${protocolName(client.protocol)} ${view.protocol_version}, from ${client.address}`), facts(agreed(view), { many: true })];
  if (view.amqp) parts.push(section("AMQP links", LINK_COLUMNS, view.amqp.links, (each) => `${each.channel} ${each.handle} ${each.role}`, "It has attached no links."));
  if (view.flow) parts.push(section("Publishers", PUBLISHER_COLUMNS, view.flow.publishers, (each) => String(each.id), "It has opened no publishers."));
  return h("section", {}, parts);
}

function section(title, columns, rows, key, empty) {
  const table = new LiveTable({ label: title, stacked: true, columns, key, empty });
  table.show(rows);
  return h("div", {}, h("h3", {}, title), table.element);
}

function agreed(view) {
  const { client } = view;
  const lines = [
    ...(view.broker ? [["Broker of the machine", view.broker]] : []),
    ["Username", client.client_username || "(anonymous)"],
    ["Connected since", moment(view.connected_ms)],
    ["Listener", view.listener],
    ["Encryption", view.tls ? "TLS" : "none"],
    ["WebSocket", view.websocket === null ? "no" : `yes${view.websocket ? `, ${view.websocket}` : ""}`],
    ["Certificate of", view.certificate_name ?? "–"],
    ["Client profile", client.client_profile],
    ["ACL profile", client.acl_profile],
    ["Broker reads from it", client.is_paused ? "paused: a destination is full, a request is under way, or it exceeds its rate" : "yes"],
    ["Received from it", `${counted(client.messages_received, "message")}, ${size(client.bytes_received)}`],
    ["Sent to it", `${counted(client.messages_sent, "message")}, ${size(client.bytes_sent)}`],
    ["Dropped", view.dropped_count ? `${counted(view.dropped_count, "direct message")}: it reads too slowly` : "none"],
    ["Written, and not taken yet", size(view.unread_bytes)],
    ["It reads", view.is_slow ? "more slowly than the broker writes" : "as fast as the broker writes"],
  ];
  if (view.mqtt) lines.push(...mqttFacts(view.mqtt));
  if (view.amqp) lines.push(...amqpFacts(view.amqp));
  if (view.flow) lines.push(["Keep-alive", milliseconds(view.flow.keep_alive_ms)], ["Compression", view.flow.compresses ? "yes" : "no"]);
  return lines;
}

function mqttFacts(mqtt) {
  return [
    ["Clean start", mqtt.clean_start ? "yes" : "no"],
    ["Keep-alive", mqtt.keep_alive_s ? duration(mqtt.keep_alive_s) : "off"],
    ["Session expiry", mqtt.session_expiry_s === null ? "never" : mqtt.session_expiry_s ? duration(mqtt.session_expiry_s) : "with the connection"],
    ["Receive maximum", counted(mqtt.receive_maximum, "message")],
    ["Maximum packet size", mqtt.maximum_packet_size === null ? "no limit" : size(mqtt.maximum_packet_size)],
    ["Topic aliases", String(mqtt.topic_alias_maximum)],
    ["Will", mqtt.will ? willWords(mqtt.will) : "none"],
  ];
}

/** Return a will as words. */
export function willWords(will) {
  const delay = will.delay_s ? `, after ${duration(will.delay_s)}` : "";
  return `${will.topic}, ${count(will.size_bytes)} B, QoS ${will.qos}${will.retain ? ", retained" : ""}${delay}`;
}

function amqpFacts(amqp) {
  return [
    ["Container", amqp.container_id],
    ["Maximum frame size", size(amqp.max_frame_size)],
    ["Heartbeat", milliseconds(amqp.heartbeat_ms)],
    ["Sessions", count(amqp.sessions_count)],
  ];
}

function milliseconds(number) {
  if (!number) return "off";
  return number % 1000 ? `${count(number)} ms` : duration(number / 1000);
}

function optionWords(each) {
  const options = [
    each.share_name && `shared by ${each.share_name}`,
    each.no_local && "no local",
    each.retain_as_published && "retain as published",
    each.retain_handling && `retain handling ${each.retain_handling}`,
    each.identifier !== null && `identifier ${each.identifier}`,
  ];
  return options.filter(Boolean).join(", ") || "–";
}
