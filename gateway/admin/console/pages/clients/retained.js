// Retained messages: what new subscribers of a topic get at once.

import { get } from "../../api/admin.js";
import { h } from "../../widgets/elements.js";
import { ROWS_MAX, anywhere, listing } from "../../widgets/listing.js";
import { LiveTable } from "../../widgets/table.js";
import { moment, size } from "../../widgets/words.js";

export const RETAINED = "retained-messages";

const address = (topic) => `#/${RETAINED}/${encodeURIComponent(topic)}`;

const COLUMNS = [
  { title: "Topic", value: (each) => each.topic, cell: (each) => h("a", { href: address(each.topic), tabindex: -1 }, each.topic) },
  { title: "Size", value: (each) => each.size_bytes, cell: (each) => size(each.size_bytes), numeric: true },
  { title: "QoS", value: (each) => each.qos, numeric: true, wide: true },
  { title: "Published", value: (each) => each.published_ms, cell: (each) => moment(each.published_ms), wide: true },
  { title: "Publisher", value: (each) => each.publisher || "–", wide: true },
  { title: "Expires", value: (each) => each.expires_ms ?? Infinity, cell: (each) => (each.expires_ms === null ? "never" : moment(each.expires_ms)), wide: true },
];

export function open(place, _, head) {
  const table = new LiveTable({
    label: "Retained messages",
    columns: COLUMNS,
    key: (each) => each.topic,
    open: (each) => (location.hash = address(each.topic)),
    sort: { column: 0, descending: false },
    empty: "No retained messages here. An MQTT client makes one when it publishes with the retain flag, and so does Publish.",
  });
  const { refresh } = listing(place, head, {
    title: "Retained messages",
    about: "The last message of a topic that was published with the retain flag: new subscribers get it at once.",
    filterLabel: "Filter topics",
    placeholder: "Topic filter or pattern: plant/+/state",
    noun: "message",
    table,
    read: async (text) => {
      const found = await get(RETAINED, { topic: /[+#]/.test(text) ? text : anywhere(text), limit: ROWS_MAX });
      return { rows: found.messages, total: found.total_count };
    },
  });
  return { refresh };
}
