// Figures of queues with their rates, for the overview and the list of queues.

import { get } from "../../api/admin.js";
import { Rates } from "../../api/rates.js";
import { bar } from "../../widgets/charts.js";
import { h } from "../../widgets/elements.js";
import { count, rate, size } from "../../widgets/words.js";

const QUEUES_MAX = 10_000; // the gateway's limit for one response

/** Reads the figures of queues repeatedly, and computes rates. */
export class QueueLooks {
  #rates = new Rates();

  /** Return `{total, queues}`; each queue has rates `in`, `out` and `settled`, null at the first reading. */
  async look(query) {
    const answer = await get("figures/queues", { limit: QUEUES_MAX, ...query });
    const names = [];
    const queues = answer.queues.map((each) => {
      const add = (kind, total) => {
        const name = `${kind} ${each.name}`;
        names.push(name);
        return this.#rates.add(name, total, answer.at_ms);
      };
      return {
        ...each,
        in: add("in", each.accepted_total),
        out: add("out", each.delivered_total),
        settled: add("settled", each.settled_total),
      };
    });
    this.#rates.keepOnly(names);
    return { total: answer.total_count, queues };
  }
}

export function queueAddress(name, below = "") {
  return `#/queues/${encodeURIComponent(name)}${below}`;
}

export function openQueue(each) {
  location.hash = queueAddress(each.name);
}

/** How full a queue is; one without a quota shows its size. */
export function fullness(each) {
  const of = each.quota_bytes ? `${size(each.spooled_bytes)} of ${size(each.quota_bytes)}` : size(each.spooled_bytes);
  return bar(each.spooled_bytes, each.quota_bytes, of);
}

/** The columns of a table of queues. */
export const QUEUE_COLUMNS = [
  { title: "Queue", value: (each) => each.name, cell: (each) => h("a", { href: queueAddress(each.name), tabindex: -1 }, each.name) },
  { title: "In /s", value: (each) => each.in, cell: (each) => rate(each.in), numeric: true },
  { title: "Out /s", value: (each) => each.out, cell: (each) => rate(each.out), numeric: true, wide: true },
  { title: "Settled /s", value: (each) => each.settled, cell: (each) => rate(each.settled), numeric: true, wide: true },
  { title: "Ready", value: (each) => each.ready_count, cell: (each) => count(each.ready_count), numeric: true },
  { title: "Unacked", value: (each) => each.unacked_count, cell: (each) => count(each.unacked_count), numeric: true },
  { title: "Spooled", value: (each) => each.spooled_bytes, cell: fullness, wide: true },
  { title: "Flows", value: (each) => each.flows_count, cell: (each) => count(each.flows_count), numeric: true, wide: true },
  { title: "Partitions", value: (each) => each.partition_count, cell: (each) => each.partition_count || "–", numeric: true, wide: true },
  { title: "Status", value: (each) => (each.moving_to ? `moving to ${each.moving_to}` : each.rebalance_status), wide: true },
];
