// The picture of a partitioned queue: which consumer owns which partition, what waits there, handoffs as they happen,
// and for the partition that is selected its history and the keys that wait, with the reason.

import { get, queuePath } from "../../api/admin.js";
import { attempt } from "../../widgets/dialogs.js";
import { OF_PARTITION } from "../../widgets/drawn.js";
import { h, setText } from "../../widgets/elements.js";
import { LiveTable } from "../../widgets/table.js";
import { TimeCharts } from "../../widgets/time-charts.js";
import { count, counted, words } from "../../widgets/words.js";

const OWNERS = 6; // colors; further consumers share them
const HANDOFFS_MAX = 8; // that are listed
const BROWSED = 200; // waiting messages in which keys are looked for
const KEYS_MAX = 8; // that are explained
const CHANGING = { paused: "handoff: the old consumer settles", unbound: "waits for its consumer to come back" }; // statuses

const KEY_COLUMNS = [
  { title: "Key", value: (each) => each.key, cell: (each) => h("a", { href: `#/explain/${["key", each.queue, each.key].map(encodeURIComponent).join("/")}`, tabindex: -1 }, each.key) },
  { title: "Waiting", value: (each) => each.waiting_count, cell: (each) => count(each.waiting_count), numeric: true },
  { title: "With the consumer", value: (each) => each.in_flight_count, cell: (each) => count(each.in_flight_count), numeric: true },
  { title: "Why", value: (each) => words(each.reason), long: true },
];

export class PartitionPicture {
  #queue;
  #cells = new Map(); // by number
  #owners = new Map(); // client -> number of its color
  #before = new Map(); // number -> {client, epoch}
  #handoffs = [];
  #selected = null;
  #charts;
  #keys;

  constructor(queue) {
    this.#queue = queue;
    this.owners = h("p", { class: "owners" });
    this.grid = h("div", { class: "partitions", role: "group", "aria-label": "Partitions and their owners" });
    this.handoffs = h("ol", { class: "handoffs", "aria-label": "Handoffs" });
    this.noHandoffs = h("p", { class: "quiet" }, "No partition has changed its owner since this page was opened.");
    this.#charts = new TimeCharts({ path: "", drawn: OF_PARTITION });
    this.#keys = new LiveTable({ label: "Keys that wait", columns: KEY_COLUMNS, key: (each) => each.key, empty: "No message with a key waits in this partition." });
    this.title = h("h3");
    this.detail = h("div", { class: "partition-detail", hidden: true }, this.title, this.#charts.element, h("h3", {}, "Keys that wait"), this.#keys.element);
    this.element = h("section", { hidden: true }, h("h2", {}, "Who has which partition"), this.owners, this.grid, h("h3", {}, "Handoffs"), this.noHandoffs, this.handoffs, this.detail);
  }

  /** Show the partitions of a view of the queue. */
  async show(view) {
    this.element.hidden = !view.config.partition_count || view.partitions.length < 2;
    if (this.element.hidden) return;
    this.#note(view.partitions);
    const most = Math.max(1, ...view.partitions.map((each) => each.ready_count + each.unacked_count));
    for (const each of view.partitions) this.#cell(each.number).show(each, most, this.#colorOf(each.client));
    for (const [number, cell] of this.#cells) {
      if (view.partitions.some((each) => each.number === number)) continue;
      cell.element.remove();
      this.#cells.delete(number);
    }
    this.#showOwners(view.partitions);
    if (this.#selected !== null) await this.#charts.refresh();
  }

  #cell(number) {
    let cell = this.#cells.get(number);
    if (!cell) {
      cell = new Cell(number, () => attempt(() => this.#select(number)));
      this.#cells.set(number, cell);
      this.grid.append(cell.element);
    }
    return cell;
  }

  #colorOf(client) {
    if (!client) return 0;
    if (!this.#owners.has(client)) this.#owners.set(client, (this.#owners.size % OWNERS) + 1);
    return this.#owners.get(client);
  }

  /** Note which partitions have another owner than before. */
  #note(partitions) {
    for (const { number, client, assignment_epoch: epoch } of partitions) {
      const before = this.#before.get(number);
      this.#before.set(number, { client, epoch });
      if (!before || (before.client === client && before.epoch === epoch)) continue;
      const text = before.client === client ? `given to ${client ?? "nobody"} again` : `from ${before.client ?? "nobody"} to ${client ?? "nobody"}`;
      this.#handoffs.unshift({ at: new Date().toLocaleTimeString("en-GB"), text: `partition ${number}: ${text}` });
      this.#cells.get(number)?.flash();
    }
    this.#handoffs.length = Math.min(this.#handoffs.length, HANDOFFS_MAX);
    this.noHandoffs.hidden = this.#handoffs.length > 0;
    this.handoffs.replaceChildren(...this.#handoffs.map(({ at, text }) => h("li", {}, h("time", {}, at), " ", text)));
  }

  #showOwners(partitions) {
    const counts = new Map();
    for (const { client } of partitions) counts.set(client, (counts.get(client) ?? 0) + 1);
    const chips = [...counts].sort(([a], [b]) => ((a ?? "~") < (b ?? "~") ? -1 : 1)).map(([client, number]) =>
      h("span", { class: `owner owner-${this.#colorOf(client)}` }, `${client ?? "no consumer"}: ${counted(number, "partition")}`),
    );
    this.owners.replaceChildren(...chips);
  }

  async #select(number) {
    this.#selected = this.#selected === number ? null : number;
    for (const [each, cell] of this.#cells) cell.element.setAttribute("aria-pressed", String(each === this.#selected));
    this.detail.hidden = this.#selected === null;
    if (this.#selected === null) return;
    setText(this.title, `Partition ${number}`);
    await Promise.all([this.#charts.ask(`history/queues/${encodeURIComponent(this.#queue)}`, { partition: number }), this.#showKeys(number)]);
  }

  async #showKeys(partition) {
    const { messages } = await get(queuePath(this.#queue, "/messages"), { partition, limit: BROWSED });
    const keys = [...new Set(messages.map((each) => each.key).filter(Boolean))].slice(0, KEYS_MAX);
    const explained = await Promise.all(keys.map((key) => get("explain/key", { queue: this.#queue, key }).then((each) => ({ ...each, key, queue: this.#queue }))));
    if (partition === this.#selected) this.#keys.show(explained);
  }
}

/** One partition: a button with a bar for its backlog, in the color of its owner. */
class Cell {
  constructor(number, press) {
    this.number = number;
    this.fill = h("span", { class: "partition-fill" });
    this.owner = h("span", { class: "partition-owner" });
    this.waits = h("span", { class: "partition-waits" });
    this.element = h("button", { type: "button", "aria-pressed": "false", onclick: press }, this.fill, h("strong", {}, String(number)), this.owner, this.waits);
  }

  show(partition, most, owner) {
    const backlog = partition.ready_count + partition.unacked_count;
    this.fill.style.width = `${Math.round((backlog / most) * 100)}%`;
    this.element.className = `partition owner-${owner} ${CHANGING[partition.status] ? "changing" : ""}`.trim();
    setText(this.owner, partition.client ?? "no consumer");
    const parts = [`${count(partition.ready_count)} ready`, partition.unacked_count ? `${count(partition.unacked_count)} unacked` : "", partition.held_count ? `${count(partition.held_count)} held` : "", CHANGING[partition.status]];
    setText(this.waits, parts.filter(Boolean).join(", "));
    this.element.title = `Partition ${partition.number}: ${partition.client ?? "no consumer"}, ${parts.filter(Boolean).join(", ")}`;
  }

  /** Show for a moment that its owner has changed. */
  flash() {
    this.element.classList.add("handed");
    this.element.animate?.([{ outlineColor: "transparent" }, { outlineColor: "currentColor" }, { outlineColor: "transparent" }], { duration: matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 1600 });
  }
}
