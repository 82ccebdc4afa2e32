// The list of queues with their rates.

import { get, post } from "../../api/admin.js";
import { actionButton } from "../../widgets/access.js";
import { ask, attempt, notice } from "../../widgets/dialogs.js";
import { h, linesOf, numberOf, setText } from "../../widgets/elements.js";
import { LiveTable } from "../../widgets/table.js";
import { counted } from "../../widgets/words.js";
import { QUEUE_COLUMNS, QueueLooks, openQueue, queueAddress } from "./figures.js";

export function open(place) {
  let looks = new QueueLooks();
  const table = new LiveTable({
    label: "Queues",
    columns: QUEUE_COLUMNS,
    key: (each) => each.name,
    open: openQueue,
    sort: { column: 0, descending: false },
    empty: "No queues match.",
  });
  const filter = h("input", { type: "search", placeholder: "Filter: orders*", "aria-label": "Filter queues" });
  const every = h("input", { type: "checkbox" });
  const total = h("span", { class: "quiet" });
  place.append(
    h("h1", {}, "Queues"),
    h(
      "div",
      { class: "bar-of-tools" },
      filter,
      h("label", {}, every, " include sessions and shared subscriptions"),
      total,
      actionButton("New queue", create),
      h("a", { href: "#/templates" }, "Templates"),
    ),
    table.element,
  );
  filter.addEventListener("input", () => changed());
  every.addEventListener("change", () => changed());

  async function refresh() {
    const text = filter.value.trim();
    const name = text && !/[*?]/.test(text) ? `*${text}*` : text;
    const asked = looks;
    const found = await asked.look({ name, named: every.checked ? 0 : 1 });
    if (asked !== looks) return; // the filter has changed meanwhile
    table.show(found.queues);
    setText(total, counted(found.total, "queue"));
  }

  function changed() {
    looks = new QueueLooks();
    attempt(refresh);
  }

  return { refresh, keys: [{ key: "n", meaning: "new queue", press: create }] };
}

function create() {
  return ask({
    title: "New queue",
    text: "Other attributes come from the template that matches its name, or have their defaults. All but the name can be changed later.",
    confirm: "Create",
    fields: [
      { name: "name", label: "Name", required: true },
      { name: "partition_count", label: "Partitions", value: "0", hint: "0: not partitioned" },
      { name: "subscriptions", label: "Topic subscriptions", hint: "one per line", lines: true },
    ],
    action: async ({ name, partition_count: partitions, subscriptions }) => {
      const definition = { name };
      if (partitions && partitions !== "0") Object.assign(definition, { partition_count: numberOf(partitions), access_type: "non-exclusive" });
      if (subscriptions) definition.subscriptions = linesOf(subscriptions);
      await post("queues", definition);
      notice(`${name} was created`);
      location.hash = queueAddress(name);
    },
  });
}

/** The names of the queues to which messages can be moved or copied. */
export async function queueNames() {
  const { queues } = await get("figures/queues", { named: 1 });
  return queues.map((each) => each.name);
}
