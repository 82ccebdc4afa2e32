// The list of queues with their rates.

import { get, post } from "../../api/admin.js";
import { actionButton } from "../../widgets/access.js";
import { ask, attempt, notice } from "../../widgets/dialogs.js";
import { h, linesOf, numberOf, setText } from "../../widgets/elements.js";
import { LiveTable } from "../../widgets/table.js";
import { counted } from "../../widgets/words.js";
import { QUEUE_COLUMNS, QueueLooks, openQueue, queueAddress } from "./figures.js";

const NETWORK_COLUMNS = [
  { title: "Queue", value: (each) => each.name, cell: (each) => h("a", { href: queueAddress(each.name), tabindex: -1 }, each.name) },
  { title: "Broker", value: (each) => each.broker },
  { title: "Access", value: (each) => each.access_type, wide: true },
  { title: "Partitions", value: (each) => each.partition_count, cell: (each) => each.partition_count || "–", numeric: true, wide: true },
  { title: "State", value: state },
];

const EMPTY = "No queues yet. New queue makes one.";

export function open(place, _, head) {
  let looks = new QueueLooks();
  const table = new LiveTable({
    label: "Queues",
    columns: QUEUE_COLUMNS,
    key: (each) => each.name,
    open: openQueue,
    sort: { column: 0, descending: false },
    empty: EMPTY,
  });
  const others = new LiveTable({
    label: "Queues of other brokers",
    columns: NETWORK_COLUMNS,
    key: (each) => `${each.name} ${each.broker}`,
    open: openQueue,
    sort: { column: 0, descending: false },
  });
  const network = h("section", { hidden: true }, h("h2", {}, "Queues of other brokers"), others.element);
  const filter = h("input", { type: "search", placeholder: "Filter: orders*", "aria-label": "Filter queues", class: "grow" });
  const every = h("input", { type: "checkbox" });
  const total = h("span", { class: "quiet" });
  head.append(h("h1", {}, "Queues"), h("div", { class: "bar-of-tools" }, filter, h("label", {}, every, " include sessions and shared subscriptions"), total));
  place.append(
    h("div", { class: "bar-of-tools" }, actionButton("New queue", create), h("a", { href: "#/templates" }, "Templates")),
    table.element,
    network,
  );
  filter.addEventListener("input", () => changed());
  every.addEventListener("change", () => changed());

  async function refresh() {
    const text = filter.value.trim();
    const name = text && !/[*?]/.test(text) ? `*${text}*` : text;
    const asked = looks;
    const [found, elsewhere] = await Promise.all([asked.look({ name, named: every.checked ? 0 : 1 }), get("network/queues")]);
    if (asked !== looks) return; // the filter has changed meanwhile
    table.show(found.queues);
    setText(table.empty, text ? "No queues match." : EMPTY);
    const listed = elsewhere.queues.filter((each) => fits(name, each.name));
    network.hidden = listed.length === 0;
    others.show(listed);
    setText(total, counted(found.total, "queue"));
  }

  function changed() {
    looks = new QueueLooks();
    attempt(refresh);
  }

  return { refresh, keys: [{ key: "n", meaning: "new queue", press: create }] };
}

/** Whether a name fits the filter, in which `*` is any text and `?` any character; empty: every name does. */
function fits(pattern, name) {
  const parts = pattern.replaceAll(/[.+^${}()|[\]\\]/g, "\\$&").replaceAll("*", ".*").replaceAll("?", ".");
  return !pattern || new RegExp(`^${parts}$`, "s").test(name);
}

function state(each) {
  if (each.conflict.length) return "conflict: several brokers have a queue of this name";
  const holds = [[!each.reachable, "no link"], [!each.ingress_enabled, "ingress shut down"], [!each.egress_enabled, "egress shut down"], [each.full, "full"]];
  return holds.filter(([is]) => is).map(([, what]) => what).join(", ") || "ready";
}

function create() {
  return ask({
    title: "New queue",
    text: "Other attributes come from the template that matches its name, or have their defaults. All but the name can be changed later.",
    confirm: "Create",
    fields: [
      { name: "name", label: "Name", required: true },
      { name: "access_type", label: "Access type", choices: ["", "non-exclusive", "exclusive"], hint: "exclusive: one consumer has all messages, the others wait; –: as the template says, else exclusive" },
      { name: "partition_count", label: "Partitions", value: "0", hint: "0: not partitioned; a partitioned queue is non-exclusive" },
      { name: "subscriptions", label: "Topic subscriptions", hint: "one per line", lines: true },
    ],
    action: async ({ name, access_type: access, partition_count: partitions, subscriptions }) => {
      const definition = { name };
      if (partitions && partitions !== "0") Object.assign(definition, { partition_count: numberOf(partitions), access_type: "non-exclusive" });
      if (access) definition.access_type = access;
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
