// Subscriptions of clients and queues; with a topic, who gets a message that is published to it.

import { get } from "../../api/admin.js";
import { seesNode } from "../../widgets/access.js";
import { attempt } from "../../widgets/dialogs.js";
import { h } from "../../widgets/elements.js";
import { ROWS_MAX, anywhere, listing } from "../../widgets/listing.js";
import { LiveTable } from "../../widgets/table.js";
import { linkAddress } from "../network/network.js";
import { queueAddress } from "../queues/figures.js";
import { clientAddress } from "./clients.js";

export const DELIVER_TO_ONE = {
  title: "Deliver-to-one",
  about: "A message that is published to one subscriber goes to the one with the highest priority, P1 to P4, and to all with always",
  value: ({ dto_priority: priority }) => (priority === "DA" ? "always" : priority),
  wide: true,
};

const TYPES = { C: "client", Q: "queue", R: "neighbor broker" };

const COLUMNS = [
  { title: "Subscription", value: (each) => each.subscription },
  { title: "Destination", value: (each) => each.destination_name, cell: destination },
  { title: "Type", value: (each) => TYPES[each.destination_type], wide: true },
  { title: "Messages", value: (each) => (each.persistence === "P" ? "spooled" : "not spooled"), wide: true },
  DELIVER_TO_ONE,
];

function destination({ destination_name: name, destination_type: type }) {
  if (type === "R") return seesNode() ? h("a", { href: linkAddress(name), tabindex: -1 }, name) : name;
  if (type === "C") return h("a", { href: clientAddress(name), tabindex: -1 }, name);
  return type === "Q" ? h("a", { href: queueAddress(name), tabindex: -1 }, name) : name;
}

export function open(place, _, head) {
  const table = new LiveTable({
    label: "Subscriptions",
    columns: COLUMNS,
    key: (each) => `${each.destination_type} ${each.destination_name} ${each.dto_priority} ${each.subscription}`,
    sort: { column: 0, descending: false },
    empty: "Nothing subscribes to this. Clients subscribe when they connect; give a queue subscriptions with Edit on its page.",
  });
  const topic = h("input", { type: "search", placeholder: "Topic of a message: orders/eu/7", "aria-label": "Topic", class: "grow", oninput: () => attempt(read) });
  const name = h("input", { type: "search", placeholder: "Client or queue", "aria-label": "Filter destinations", oninput: () => attempt(read) });
  const { read, refresh } = listing(place, head, {
    title: "Subscriptions",
    about: "Give the topic of a message to see who gets it. Explain also shows rights, selectors and quotas.",
    filterLabel: "Filter subscriptions",
    placeholder: "Subscription: orders*",
    noun: "subscription",
    table,
    tools: [topic, name],
    read: async (text) => {
      const found = await get("smrp/subscriptions", { topic_str: anywhere(text), topic: topic.value.trim(), destination_name: anywhere(name.value.trim()), limit: ROWS_MAX });
      return { rows: found.subscriptions, total: found.total_count };
    },
  });
  return { refresh };
}
