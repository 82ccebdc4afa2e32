// The list of bridges, which carry messages to and from foreign brokers.

import { get, post } from "../../api/admin.js";
import { actionButton } from "../../widgets/access.js";
import { ask, attempt } from "../../widgets/dialogs.js";
import { h } from "../../widgets/elements.js";
import { LiveTable } from "../../widgets/table.js";
import { count } from "../../widgets/words.js";
import { queueNames } from "../queues/queues.js";

export const BRIDGES = "bridges";

export function bridgeAddress(name) {
  return `#/${BRIDGES}/${encodeURIComponent(name)}`;
}

/** Return the state as a text, with the reason if it is not up. */
export function bridgeWords({ enabled, up, state, reason }) {
  if (up) return "up";
  if (!enabled) return "shut down";
  return reason ? `${state}: ${reason}` : state;
}

export function open(place) {
  const table = new LiveTable({
    label: "Bridges",
    columns: [
      { title: "Name", value: (each) => each.name, cell: (each) => h("a", { href: bridgeAddress(each.name), tabindex: -1 }, each.name) },
      { title: "State", value: bridgeWords, long: true },
      { title: "Foreign broker", value: (each) => each.remote_url, wide: true },
      { title: "Out", about: "Messages that the foreign broker has confirmed", value: (each) => carried(each, "outgoing"), cell: (each) => count(carried(each, "outgoing")), numeric: true },
      { title: "In", about: "Messages that came from the foreign broker", value: (each) => carried(each, "incoming"), cell: (each) => count(carried(each, "incoming")), numeric: true },
      { title: "Origin", value: (each) => each.origin, wide: true },
    ],
    key: (each) => each.name,
    open: (each) => (location.hash = bridgeAddress(each.name)),
    sort: { column: 0, descending: false },
    empty: "No bridges. A bridge exchanges messages with a broker of another kind, over MQTT, AMQP or the flow protocol.",
  });
  const tools = h("div", { class: "bar-of-tools" }, actionButton("New bridge", () => attempt(create)));
  place.append(h("h1", {}, "Bridges"), tools, table.element);

  async function refresh() {
    table.show((await get(BRIDGES)).bridges);
  }

  return { refresh, keys: [{ key: "n", meaning: "new bridge", press: () => attempt(create) }] };
}

/** The number of messages that the other side has confirmed, in one direction. */
export function carried(bridge, direction) {
  return bridge.rules.filter((each) => each.direction === direction).reduce((sum, each) => sum + each.messages, 0);
}

async function create() {
  const queues = await queueNames();
  return ask({
    title: "New bridge",
    text: "The bridge starts with the rules given here. Use Edit to add more and to change other settings.",
    confirm: "Create",
    fields: [
      { name: "name", label: "Name", required: true },
      { name: "url", label: "Foreign broker", required: true, placeholder: "mqtt://HOST" },
      { name: "queue", label: "Queue whose messages go there", options: queues },
      { name: "topic", label: "Topic filter of messages that come here" },
    ],
    action: async ({ name, url, queue, topic }) => {
      await post(BRIDGES, {
        name,
        remote_url: url,
        outgoing: queue ? [{ queue }] : [],
        incoming: topic ? [{ remote_topic: topic }] : [],
      });
      location.hash = bridgeAddress(name);
    },
  });
}
