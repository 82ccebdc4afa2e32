// MQTT sessions: of connected clients, and of those that are away with what waits for them.

import { get } from "../../api/admin.js";
import { attempt } from "../../widgets/dialogs.js";
import { h } from "../../widgets/elements.js";
import { ROWS_MAX, anywhere, listing } from "../../widgets/listing.js";
import { LiveTable } from "../../widgets/table.js";
import { count, duration, moment, size } from "../../widgets/words.js";

export const SESSIONS = "mqtt-sessions";

export const sessionAddress = (name) => `#/${SESSIONS}/${encodeURIComponent(name)}`;

/** Return when a session ends, as words. */
export function expiryWords(each) {
  if (each.expiry_s === null) return "never";
  if (each.expires_ms !== null) return moment(each.expires_ms);
  return each.expiry_s ? `${duration(each.expiry_s)} after it leaves` : "with its connection";
}

const COLUMNS = [
  { title: "Client ID", value: (each) => each.client_id, cell: (each) => h("a", { href: sessionAddress(each.client_id), tabindex: -1 }, each.client_id) },
  { title: "Client", value: (each) => (each.connected ? "connected" : "away") },
  { title: "Away since", value: (each) => each.disconnected_ms ?? 0, cell: (each) => (each.disconnected_ms === null ? "–" : moment(each.disconnected_ms)), wide: true },
  { title: "Ends", value: (each) => each.expires_ms ?? Infinity, cell: expiryWords, wide: true },
  { title: "Subscriptions", value: (each) => each.subscriptions_count, cell: (each) => count(each.subscriptions_count), numeric: true, wide: true },
  { title: "Ready", value: (each) => each.ready_count, cell: (each) => count(each.ready_count), numeric: true },
  { title: "Unacked", value: (each) => each.unacked_count, cell: (each) => count(each.unacked_count), numeric: true, wide: true },
  { title: "Spooled", value: (each) => each.spooled_bytes, cell: (each) => size(each.spooled_bytes), numeric: true, wide: true },
  { title: "Username", value: (each) => each.client_username || "–", wide: true },
];

export function open(place, _, head) {
  const table = new LiveTable({
    label: "MQTT sessions",
    columns: COLUMNS,
    key: (each) => each.client_id,
    open: (each) => (location.hash = sessionAddress(each.client_id)),
    sort: { column: 0, descending: false },
    empty: "No MQTT sessions. Each MQTT client that connects has one; it outlives the connection if the client asks for it (Clean Session off, or a session expiry).",
  });
  const which = h(
    "select",
    { "aria-label": "Connected or away", onchange: () => attempt(read) },
    [["", "connected or away"], ["1", "connected"], ["0", "away"]].map(([value, text]) => h("option", { value }, text)),
  );
  const { read, refresh } = listing(place, head, {
    title: "MQTT sessions",
    filterLabel: "Filter sessions",
    placeholder: "Filter: sensor-*",
    noun: "session",
    table,
    tools: [which],
    read: async (text) => {
      const found = await get(SESSIONS, { client_id: anywhere(text), connected: which.value, limit: ROWS_MAX });
      return { rows: found.sessions, total: found.total_count };
    },
  });
  return { refresh };
}
