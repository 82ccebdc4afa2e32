// The open ports for clients.

import { get } from "../../api/admin.js";
import { bar } from "../../widgets/charts.js";
import { h } from "../../widgets/elements.js";
import { LiveTable } from "../../widgets/table.js";
import { count, protocolName } from "../../widgets/words.js";

export const LISTENERS = "listeners";

const refused = (each) => each.refused_total + each.beyond_files_total;

const COLUMNS = [
  { title: "Listener", value: (each) => each.name },
  { title: "Protocol", value: (each) => protocolName(each.protocol), wide: true },
  { title: "Address", value: (each) => each.url, long: true },
  { title: "Encryption", value: encryption, wide: true },
  { title: "Message VPN", value: (each) => each.vpn_name, wide: true },
  { title: "Connections", value: (each) => each.connections_count, cell: (each) => bar(each.connections_count, each.max_connections, `${count(each.connections_count)} of ${count(each.max_connections)}`), wide: true },
  { title: "Accepted", value: (each) => each.accepted_total, cell: (each) => count(each.accepted_total), numeric: true, wide: true },
  { title: "Refused", value: refused, cell: (each) => count(refused(each)), numeric: true },
  { title: "TLS failed", value: (each) => each.failed_handshakes_total, cell: (each) => count(each.failed_handshakes_total), numeric: true, wide: true },
];

function encryption(each) {
  if (!each.tls) return "none";
  return each.client_certificates ? "TLS, clients show certificates" : "TLS";
}

export function open(place) {
  const table = new LiveTable({
    label: "Listeners",
    stacked: true,
    columns: COLUMNS,
    key: (each) => each.name,
    sort: { column: 0, descending: false },
    empty: "No port is open for clients. Listeners are sections of the configuration file.",
  });
  place.append(
    h("h1", {}, "Listeners"),
    h("p", { class: "quiet" }, "The ports for clients, as the configuration file opens them. Counts are since the broker started; refused are connections beyond the limit."),
    table.element,
  );

  async function refresh() {
    table.show((await get(LISTENERS)).listeners);
  }

  return { refresh };
}
