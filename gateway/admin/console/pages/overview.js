// The overview of the node: what is wrong now, rates and their history, connections, spool, memory, the busiest queues, the latest events.

import { get } from "../api/admin.js";
import { Rates } from "../api/rates.js";
import { seesNode } from "../widgets/access.js";
import { Tile, bar } from "../widgets/charts.js";
import { h, setText } from "../widgets/elements.js";
import { LiveTable } from "../widgets/table.js";
import { count, protocolName, rate, size } from "../widgets/words.js";
import { OF_NODE, OF_VPN } from "../widgets/drawn.js";
import { TimeCharts } from "../widgets/time-charts.js";
import { Attention } from "./attention.js";
import { eventTable } from "./events.js";
import { firstSteps } from "./first-steps.js";
import { QUEUE_COLUMNS, QueueLooks, openQueue } from "./queues/figures.js";

const BUSIEST = 8;
const EVENTS = 6;

const PROTOCOL_COLUMNS = [
  { title: "Protocol", value: (each) => protocolName(each.protocol) },
  { title: "Connections", value: (each) => each.connections_count, cell: (each) => count(each.connections_count), numeric: true },
  { title: "In /s", value: (each) => each.in, cell: (each) => rate(each.in), numeric: true },
  { title: "Out /s", value: (each) => each.out, cell: (each) => rate(each.out), numeric: true },
  { title: "In B/s", value: (each) => each.inBytes, cell: (each) => rate(each.inBytes), numeric: true, wide: true },
  { title: "Out B/s", value: (each) => each.outBytes, cell: (each) => rate(each.outBytes), numeric: true, wide: true },
];

export function open(place) {
  const rates = new Rates();
  const looks = new QueueLooks();
  const tiles = { in: new Tile("Messages in /s"), out: new Tile("Messages out /s"), connections: new Tile("Connections"), waiting: new Tile("Messages waiting") };
  const protocols = new LiveTable({ label: "Protocols", columns: PROTOCOL_COLUMNS, key: (each) => each.protocol });
  const queues = new LiveTable({ label: "Busiest queues", columns: QUEUE_COLUMNS, key: (each) => each.name, open: openQueue, empty: "No queues yet." });
  const events = eventTable("Latest events");
  const title = h("h1", {}, "Overview");
  const health = h("p", { class: "health" });
  const spool = h("div", { class: "gauges" });
  const attention = new Attention();
  const ofNode = seesNode();
  const charts = new TimeCharts(ofNode ? { path: "history", drawn: OF_NODE } : { path: "history/message-vpn", drawn: OF_VPN });
  place.append(title, health, attention.element);
  if (ofNode) {
    place.append(
      h("div", { class: "tiles" }, Object.values(tiles).map((each) => each.element)),
      charts.element,
      h("div", { class: "columns" }, h("section", {}, h("h2", {}, "Protocols"), protocols.element), h("section", {}, h("h2", {}, "Spool and memory"), spool)),
    );
  }
  else place.append(charts.element);
  place.append(h("section", {}, h("h2", {}, "Busiest queues"), queues.element));
  if (ofNode) place.append(h("section", {}, h("h2", {}, "Latest events"), events.element));
  health.after(firstSteps());

  async function refresh() {
    const asked = ofNode ? [get("figures"), get("spool"), get("events", { limit: EVENTS })] : [];
    const [found, ready, node, use, told] = await Promise.all([looks.look({ named: 1 }), get("health/ready"), ...asked, charts.refresh()]);
    queues.show(busiest(found.queues));
    await attention.show({ queues: found.queues, ready, use });
    const state = ready.ready ? "accepts traffic" : ready.reasons.join("; ");
    setText(health, node ? `release ${node.version}, ${state}` : state);
    health.classList.toggle("wrong", !ready.ready);
    if (node) showNode(node, use, told);
  }

  function showNode(node, use, told) {
    setText(title, node.name);
    showTotals(node, use);
    protocols.show(node.protocols.map((each) => protocolRates(each, node.at_ms)));
    const commits = rates.add("commits", node.spool_commits_total, node.at_ms);
    const used = node.process && rates.add("cpu", node.process.cpu_ms_total, node.at_ms);
    spool.replaceChildren(...gauges(use, commits), ...processLine(node.process, used));
    events.show(told.events.toReversed());
  }

  function showTotals(node, use) {
    const total = (name) => node.protocols.reduce((sum, each) => sum + each[name], 0);
    const connections = total("connections_count");
    const came = rates.add("in", total("messages_received_total"), node.at_ms);
    const went = rates.add("out", total("messages_sent_total"), node.at_ms);
    const bytesIn = rates.add("in bytes", total("bytes_received_total"), node.at_ms);
    const bytesOut = rates.add("out bytes", total("bytes_sent_total"), node.at_ms);
    tiles.in.show(rate(came), bytesIn === null ? "" : `${size(bytesIn)}/s`);
    tiles.out.show(rate(went), bytesOut === null ? "" : `${size(bytesOut)}/s`);
    tiles.connections.show(count(connections), "all protocols");
    tiles.waiting.show(count(use.messages_count), `${count(use.unacked_count)} with consumers`);
  }

  function protocolRates(each, atMs) {
    const add = (name) => rates.add(`${name} ${each.protocol}`, each[name], atMs);
    return {
      ...each,
      in: add("messages_received_total"),
      out: add("messages_sent_total"),
      inBytes: add("bytes_received_total"),
      outBytes: add("bytes_sent_total"),
    };
  }

  return { refresh };
}

function busiest(queues) {
  const work = (each) => (each.in ?? 0) + (each.settled ?? 0);
  const backlog = (each) => each.ready_count + each.unacked_count;
  return [...queues].sort((a, b) => work(b) - work(a) || backlog(b) - backlog(a) || (a.name < b.name ? -1 : 1)).slice(0, BUSIEST);
}

function gauges(use, commits) {
  const line = (name, now, most, words) => h("div", { class: "gauge" }, h("span", {}, name), bar(now, most, `${words(now)} of ${words(most)}`));
  const lines = [
    line("Messages", use.messages_count, use.messages_count_max, count),
    line("Payload", use.messages_bytes, use.messages_bytes_max, size),
    line("Data file", use.used_bytes, use.limit_bytes, size),
    line("Memory", use.memory_bytes, use.memory_bytes_max, size),
    line("Unacked", use.unacked_count, use.unacked_count_max, count),
  ];
  const rest = `${rate(commits)} commits/s, ${size(use.disk_free_bytes)} free on the disk`;
  lines.push(h("p", { class: "quiet" }, use.quarantined ? `${rest}, ${count(use.quarantined)} quarantined records` : rest));
  if (use.blocked) lines.push(h("p", { class: "wrong" }, `The spool refuses messages: ${use.blocked}`));
  return lines;
}

/** Memory and CPU of the process; `used` is in CPU milliseconds per second. Empty where the system has no figures. */
function processLine(process, used) {
  if (!process) return [];
  const share = used === null ? "" : `, ${Math.round(used / 10)} % of a processor`;
  return [h("p", { class: "quiet" }, `Process: ${size(process.memory_bytes)} of memory${share}`)];
}
