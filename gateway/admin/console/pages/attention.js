// What is wrong now, worst first, each with a link to where it is. The overview leads with it.

import { get } from "../api/admin.js";
import { seesNode } from "../widgets/access.js";
import { h } from "../widgets/elements.js";
import { count, counted, size } from "../widgets/words.js";
import { eventWords } from "./events.js";
import { queueAddress } from "./queues/figures.js";

const OF_A_KIND_MAX = 4; // that are named; the others are counted
const STALLED_MS = 30_000; // for consumers to settle something of what waits
const RECENT_MS = 60_000; // refusals and losses are those of a minute
const EVENTS_MS = 600_000; // warnings are those of ten minutes
const EVENTS_MAX = 200; // in which warnings are looked for
const SELDOM = 5; // of so many refreshes, one asks for events, bridges, delivery points and links
const HIGH = 0.8; // of a limit
const FULL = 0.95;

/** Reads what is wrong, and shows it. What happens over time is known since the page was opened. */
export class Attention {
  #queues = new QueueWatch();
  #elsewhere = []; // troubles of what is asked seldom
  #refreshes = 0;

  constructor() {
    this.title = h("h2", {}, "…");
    this.list = h("ul", {});
    this.element = h("section", { class: "attention", "aria-label": "What is wrong now" }, this.title, this.list);
  }

  /** `queues` are rows of figures; `ready` is the answer of the probe; `use` the spool, or null if it may not be seen. */
  async show({ queues, ready, use }) {
    if (this.#refreshes % SELDOM === 0) this.#elsewhere = await askElsewhere();
    this.#refreshes += 1;
    const found = [...ofNode(ready, use), ...this.#queues.troubles(queues, Date.now()), ...this.#elsewhere];
    found.sort((a, b) => Number(b.bad) - Number(a.bad));
    this.element.className = `attention ${found.some((each) => each.bad) ? "bad" : found.length ? "some" : ""}`.trim();
    this.title.textContent = found.length ? "Wrong now" : "Nothing is wrong now";
    const items = found.map(({ bad, text, href }) => h("li", { class: bad ? "bad" : null }, h("a", { href }, text)));
    if (this.list.textContent !== found.map((each) => each.text).join("")) this.list.replaceChildren(...items);
  }
}

function ofNode(ready, use) {
  const found = ready.ready ? [] : ready.reasons.map((reason) => ({ bad: true, text: `The node takes no traffic: ${reason}`, href: "#/events" }));
  if (!use) return found;
  const spool = (bad, text) => found.push({ bad, text, href: "#/spool" });
  if (use.blocked) spool(true, `The spool refuses messages: ${use.blocked}`);
  if (use.quarantined) spool(true, `${counted(use.quarantined, "damaged record")} in quarantine`);
  const usages = [
    ["The spool", use.messages_bytes, use.messages_bytes_max],
    ["The data file of the spool", use.used_bytes, use.limit_bytes],
    ["The memory for messages", use.memory_bytes, use.memory_bytes_max],
  ];
  for (const [what, part, whole] of usages) {
    if (whole && part >= HIGH * whole) spool(part >= FULL * whole, `${what} is ${percent(part, whole)} full: ${size(part)} of ${size(whole)}`);
  }
  return found;
}

/** Compares the figures of queues over time. */
export class QueueWatch {
  #readings = new Map(); // name -> readings of the last minute, oldest first
  #settled = new Map(); // name -> {total, sinceMs}

  troubles(queues, nowMs) {
    const deadQueues = new Set(queues.map((each) => each.dead_msg_queue));
    this.#note(queues, nowMs);
    const kinds = [
      queues.filter((each) => deadQueues.has(each.name) && waiting(each) > 0).map((each) => ({ bad: true, text: `${counted(waiting(each), "dead message")} in ${each.name}`, href: queueAddress(each.name, "/messages") })),
      this.#grown(queues, "refused_total", (number, name) => `${name} has refused ${counted(number, "message")} in the last minute`),
      this.#grown(queues, "discarded_total", (number, name) => `${name} has lost ${counted(number, "message")} in the last minute: discarded, and in no dead message queue`),
      queues.filter((each) => this.#isStalled(each, nowMs)).map((each) => ({ bad: true, text: `${each.name} is stalled: ${counted(waiting(each), "message")}, ${counted(each.flows_count, "consumer")}, none settled for ${this.#stillS(each, nowMs)} s`, href: queueAddress(each.name) })),
      queues.filter((each) => each.quota_bytes && each.spooled_bytes >= HIGH * each.quota_bytes).map((each) => ({ bad: each.spooled_bytes >= FULL * each.quota_bytes, text: `${each.name} is ${percent(each.spooled_bytes, each.quota_bytes)} full`, href: queueAddress(each.name) })),
      queues.filter((each) => each.ready_count > 0 && each.flows_count === 0 && !deadQueues.has(each.name)).map((each) => ({ bad: false, text: `${counted(each.ready_count, "message")} in ${each.name}, and no consumer`, href: queueAddress(each.name) })),
    ];
    return kinds.flatMap((each) => few(each, "#/queues"));
  }

  #note(queues, nowMs) {
    const names = new Set(queues.map((each) => each.name));
    for (const known of [this.#readings, this.#settled]) for (const name of known.keys()) names.has(name) || known.delete(name);
    for (const each of queues) {
      const settled = this.#settled.get(each.name);
      if (settled?.total !== each.settled_total || waiting(each) === 0) this.#settled.set(each.name, { total: each.settled_total, sinceMs: nowMs });
      const readings = this.#readings.get(each.name) ?? [];
      const last = readings.at(-1);
      if (last && last.refused_total === each.refused_total && last.discarded_total === each.discarded_total) last.untilMs = nowMs;
      else readings.push({ refused_total: each.refused_total, discarded_total: each.discarded_total, untilMs: nowMs });
      while (readings.length > 1 && readings[0].untilMs < nowMs - RECENT_MS) readings.shift();
      this.#readings.set(each.name, readings);
    }
  }

  /** Queues of which a total has risen within a minute. */
  #grown(queues, total, words) {
    return queues.flatMap((each) => {
      const number = each[total] - this.#readings.get(each.name)[0][total];
      return number > 0 ? [{ bad: true, text: words(number, each.name), href: queueAddress(each.name) }] : [];
    });
  }

  #stillS(each, nowMs) {
    return Math.round((nowMs - this.#settled.get(each.name).sinceMs) / 1000);
  }

  #isStalled(each, nowMs) {
    return each.flows_count > 0 && waiting(each) > 0 && nowMs - this.#settled.get(each.name).sinceMs >= STALLED_MS;
  }
}

const waiting = (each) => each.ready_count + each.unacked_count;
const percent = (part, whole) => `${Math.floor((part / whole) * 100)} %`;

/** The first troubles of a kind, and how many more there are. */
function few(found, href) {
  if (found.length <= OF_A_KIND_MAX) return found;
  const rest = found.slice(OF_A_KIND_MAX);
  return [...found.slice(0, OF_A_KIND_MAX), { bad: rest.some((each) => each.bad), text: `and ${count(rest.length)} more like these`, href }];
}

/** Ask for what is down, and for the latest warnings. */
async function askElsewhere() {
  const [{ bridges }, { rest_delivery_points: points }, links, told] = await Promise.all([
    get("bridges"),
    get("rest-delivery-points"),
    seesNode() ? get("links") : { links: [] },
    seesNode() ? get("events", { limit: EVENTS_MAX }) : { events: [] },
  ]);
  const things = [
    { event: "VPN_BRIDGING_LINK_DOWN", found: down("Bridge", bridges, "bridges") },
    { event: "VPN_REST_CONSUMER_DOWN", found: down("Delivery point", points, "rest-delivery-points") },
    { event: "SYSTEM_NETWORK_LINK_DOWN", found: down("The link to", links.links, "network") },
  ];
  const said = new Set(things.filter((each) => each.found.length).map((each) => each.event)); // once is enough
  return [...things.flatMap((each) => each.found), ...warnings(told.events.filter((each) => !said.has(each.event)))];
}

function down(what, all, page) {
  const found = all.filter((each) => each.enabled && !each.up && each.state !== "paused");
  return few(found.map((each) => ({ bad: true, text: `${what} ${each.name} is down${each.reason ? `: ${each.reason}` : ""}`, href: `#/${page}/${encodeURIComponent(each.name)}` })), `#/${page}`);
}

/** The latest warning of each kind, with how often it came. */
function warnings(events) {
  const newest = events.at(-1)?.time_ms ?? 0;
  const kinds = new Map();
  for (const each of events) {
    if (!["warning", "error"].includes(each.level) || each.time_ms < Math.max(newest, Date.now()) - EVENTS_MS) continue;
    kinds.set(each.event, { each, number: (kinds.get(each.event)?.number ?? 0) + 1 });
  }
  return [...kinds.values()].map(({ each, number }) => ({ bad: each.level === "error", text: `${number > 1 ? `${count(number)} times in ten minutes: ` : ""}${eventWords(each)}`, href: `#/events/${encodeURIComponent(each.event)}` }));
}
