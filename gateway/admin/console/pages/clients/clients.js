// The connected clients.

import { get } from "../../api/admin.js";
import { h } from "../../widgets/elements.js";
import { ROWS_MAX, anywhere, listing } from "../../widgets/listing.js";
import { LiveTable } from "../../widgets/table.js";
import { count, duration, protocolName } from "../../widgets/words.js";
import { ClientTrace } from "./trace.js";

export const CLIENTS = "clients";

const OWN_PAGES = { "#bridge/": "bridges", "#rdp/": "rest-delivery-points" };

/** The address of a client's page; where a bridge or delivery point is the client, of its page. */
export function clientAddress(name) {
  const prefix = Object.keys(OWN_PAGES).find((each) => name.startsWith(each));
  const [page, object] = prefix ? [OWN_PAGES[prefix], name.slice(prefix.length)] : [CLIENTS, name];
  return `#/${page}/${encodeURIComponent(object)}`;
}

const COLUMNS = [
  { title: "Client", value: (each) => each.name, cell: (each) => h("a", { href: clientAddress(each.name), tabindex: -1 }, each.name) },
  { title: "Protocol", value: (each) => protocolName(each.protocol) },
  { title: "Username", value: (each) => each.client_username || "–", wide: true },
  { title: "Address", value: (each) => each.address, wide: true },
  { title: "Connected", value: (each) => each.connected_s, cell: (each) => duration(each.connected_s), numeric: true, wide: true },
  { title: "Flows", value: (each) => each.flows_count, numeric: true },
  { title: "Unacked", value: (each) => each.unacked_count, cell: (each) => count(each.unacked_count), numeric: true },
  { title: "Reading", about: "Whether the gateway reads from it: a client that publishes too fast is paused", value: (each) => (each.is_paused ? "paused" : "yes"), wide: true },
  { title: "Profile", value: (each) => each.client_profile, wide: true },
  { title: "ACL", value: (each) => each.acl_profile, wide: true },
];

export function open(place, _, head) {
  const table = new LiveTable({
    label: "Clients",
    columns: COLUMNS,
    key: (each) => `${each.protocol} ${each.name} ${each.address}`,
    open: (each) => (location.hash = clientAddress(each.name)),
    sort: { column: 0, descending: false },
    empty: "No clients are connected. Overview shows how to connect one. Listeners shows the addresses.",
  });
  const { refresh } = listing(place, head, {
    title: "Clients",
    filterLabel: "Filter clients",
    placeholder: "Filter: sensor-*",
    noun: "client",
    table,
    read: async (text) => {
      const found = await get(CLIENTS, { client_name: anywhere(text), limit: ROWS_MAX });
      return { rows: found.clients, total: found.total_count };
    },
  });
  const username = h("input", { placeholder: "empty: without one", "aria-label": "Username to follow" });
  const trace = new ClientTrace({
    title: "Packets of a user",
    starts: "Follow a user's packets",
    tools: [h("label", {}, "Username ", username)],
    ofSeveral: true,
    request: () => ({ path: "trace", query: username.value ? { client_username: username.value } : {} }),
  });
  place.append(trace.element);
  return { refresh, close: () => trace.stop() };
}
