// The durable cursors of a queue, with the position of each reader.

import { get, queuePath } from "../../api/admin.js";
import { actionButton } from "../../widgets/access.js";
import { bar } from "../../widgets/charts.js";
import { askToDelete } from "../../widgets/dialogs.js";
import { h } from "../../widgets/elements.js";
import { LiveTable } from "../../widgets/table.js";
import { count, size } from "../../widgets/words.js";

export class Cursors {
  #queue;
  #table;

  constructor(queue) {
    this.#queue = queue;
    this.#table = new LiveTable({
      label: "Durable cursors",
      stacked: true,
      columns: [
        { title: "Cursor", value: (each) => each.name },
        { title: "State", value: (each) => each.state, cell: (each) => state(each) },
        { title: "Mode", value: (each) => each.mode, wide: true },
        { title: "Instance", value: (each) => each.instance || "–", wide: true },
        { title: "Behind", value: (each) => each.lag_count, cell: (each) => count(each.lag_count), numeric: true },
        { title: "Bytes behind", value: (each) => each.lag_bytes, cell: (each) => lag(each), wide: true },
        { title: "Last batch", value: (each) => each.batch_ref || "–", wide: true },
        { title: "", value: () => null, numeric: true, cell: (each) => actionButton("Delete", () => this.#drop(each.name)) },
      ],
      key: (each) => each.name,
      sort: { column: 0, descending: false },
      empty: "No durable cursors.",
    });
    this.element = this.#table.element;
  }

  async refresh() {
    this.#table.show((await get(queuePath(this.#queue, "/cursors"))).cursors);
  }

  #drop(name) {
    const path = queuePath(this.#queue, `/cursors/${encodeURIComponent(name)}`);
    const text = "Its position is deleted, and the messages that the queue keeps for it are released.";
    return askToDelete({ title: `Delete cursor ${name}?`, text, path, name }, () => this.refresh());
  }
}

/** A cursor that lagged too far is `exceeded`: it may have missed messages. */
function state({ state: word }) {
  return word === "exceeded" ? h("span", { class: "wrong" }, word) : word;
}

function lag(each) {
  return bar(each.lag_bytes, each.lag_bytes_max, `${size(each.lag_bytes)} of ${size(each.lag_bytes_max)}`);
}
