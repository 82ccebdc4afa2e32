// The connected clients.

import { get } from "../api/admin.js";
import { attempt } from "../widgets/dialogs.js";
import { h, setText } from "../widgets/elements.js";
import { LiveTable } from "../widgets/table.js";
import { count, counted, duration } from "../widgets/words.js";

const CLIENTS_MAX = 1000; // of one request; a filter finds the others

const COLUMNS = [
  { title: "Client", value: (each) => each.name },
  { title: "Protocol", value: (each) => each.protocol },
  { title: "Username", value: (each) => each.client_username || "–", wide: true },
  { title: "Address", value: (each) => each.address, wide: true },
  { title: "Connected", value: (each) => each.connected_s, cell: (each) => duration(each.connected_s), numeric: true, wide: true },
  { title: "Flows", value: (each) => each.flows_count, numeric: true },
  { title: "Unacked", value: (each) => each.unacked_count, cell: (each) => count(each.unacked_count), numeric: true },
  { title: "Reading", value: (each) => (each.is_paused ? "paused" : "yes") },
  { title: "Profile", value: (each) => each.client_profile, wide: true },
  { title: "ACL", value: (each) => each.acl_profile, wide: true },
];

export function open(place) {
  const table = new LiveTable({
    label: "Clients",
    columns: COLUMNS,
    key: (each) => `${each.protocol} ${each.name} ${each.address}`,
    sort: { column: 0, descending: false },
    empty: "No client is connected.",
  });
  const filter = h("input", { type: "search", placeholder: "Filter: sensor-*", "aria-label": "Filter clients" });
  const total = h("span", { class: "quiet" });
  place.append(h("h1", {}, "Clients"), h("div", { class: "bar-of-tools" }, filter, total), table.element);
  filter.addEventListener("input", () => attempt(refresh));

  async function refresh() {
    const text = filter.value.trim();
    const name = text && !/[*?]/.test(text) ? `*${text}*` : text;
    const found = await get("clients", { client_name: name, limit: CLIENTS_MAX });
    if (text !== filter.value.trim()) return; // the filter has changed meanwhile
    table.show(found.clients);
    setText(total, counted(found.total_count, "client"));
  }

  return { refresh };
}
