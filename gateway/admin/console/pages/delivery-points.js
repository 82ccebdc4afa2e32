// The list of REST delivery points, which push queues to web servers.

import { get, post } from "../api/admin.js";
import { actionButton } from "../widgets/access.js";
import { ask, attempt } from "../widgets/dialogs.js";
import { h, numberOf } from "../widgets/elements.js";
import { LiveTable } from "../widgets/table.js";
import { count } from "../widgets/words.js";
import { queueNames } from "./queues/queues.js";

export const POINTS = "rest-delivery-points";

export function pointAddress(name) {
  return `#/${POINTS}/${encodeURIComponent(name)}`;
}

/** Return the state as a text, with the reason if it is down. */
export function upWords({ enabled = true, up, reason }) {
  if (up) return "up";
  return enabled ? (reason ? `down: ${reason}` : "down") : "shut down";
}

/** Return the state of a delivery point; if it is down, with the reason of its first part that is down. */
export function pointWords(point) {
  const parts = [...point.queue_bindings, ...point.rest_consumers];
  return upWords({ ...point, reason: point.reason || parts.find((each) => !each.up)?.reason });
}

export function open(place) {
  const table = new LiveTable({
    label: "REST delivery points",
    columns: [
      { title: "Name", value: (each) => each.name, cell: (each) => h("a", { href: pointAddress(each.name), tabindex: -1 }, each.name) },
      { title: "State", value: pointWords, long: true },
      { title: "Queues", value: (each) => each.definition.queue_bindings.map((binding) => binding.queue).join(", ") || "–", wide: true },
      { title: "REST consumers", value: (each) => each.definition.rest_consumers.map((consumer) => consumer.name).join(", ") || "–", wide: true },
      { title: "Accepted", value: accepted, cell: (each) => count(accepted(each)), numeric: true },
      { title: "Origin", value: (each) => each.origin, wide: true },
    ],
    key: (each) => each.name,
    open: (each) => (location.hash = pointAddress(each.name)),
    sort: { column: 0, descending: false },
    empty: "No delivery points. A delivery point sends the messages of queues to web servers, as HTTP requests.",
  });
  const tools = h("div", { class: "bar-of-tools" }, actionButton("New delivery point", () => attempt(create)));
  place.append(h("h1", {}, "Delivery points"), tools, table.element);

  async function refresh() {
    table.show((await get(POINTS))[POINTS.replaceAll("-", "_")]);
  }

  return { refresh, keys: [{ key: "n", meaning: "new delivery point", press: () => attempt(create) }] };
}

/** The number of messages that web servers accepted since the start of the delivery point. */
function accepted(point) {
  return point.queue_bindings.reduce((sum, each) => sum + (each.messages.accepted ?? 0), 0);
}

async function create() {
  const queues = await queueNames();
  return ask({
    title: "New delivery point",
    text: "The delivery point starts with one queue and one web server. Use Edit to add more and to change other settings.",
    confirm: "Create",
    fields: [
      { name: "name", label: "Name", required: true },
      { name: "queue", label: "Queue", required: true, options: queues },
      { name: "target", label: "Path on the web server", required: true, value: "/" },
      { name: "host", label: "Host", required: true },
      { name: "port", label: "Port", required: true, value: "8080" },
      { name: "tls", label: "TLS", choices: ["false", "true"] },
    ],
    action: async ({ name, queue, target, host, port, tls }) => {
      await post(POINTS, {
        name,
        queue_bindings: [{ queue, post_request_target: target }],
        rest_consumers: [{ name: "server", remote_host: host, remote_port: numberOf(port), tls_enabled: tls === "true" }],
      });
      location.hash = pointAddress(name);
    },
  });
}
