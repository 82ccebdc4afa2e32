// Explains where a message would go, and why the messages of a key wait. Nothing is published.

import { get } from "../api/admin.js";
import { attempt } from "../widgets/dialogs.js";
import { facts, h } from "../widgets/elements.js";
import { LiveTable } from "../widgets/table.js";
import { count, words } from "../widgets/words.js";

const PUBLISH_FIELDS = [
  ["topic", "Topic", "orders/eu/new"],
  ["queue", "or queue", ""],
  ["key", "Partition key", ""],
  ["size", "Size in bytes", "0"],
  ["qos", "QoS", "1"],
  ["priority", "Priority", "4"],
  ["properties", "User properties", '{"amount": 12}'],
  ["client_username", "Publisher's username", ""],
];
const KEY_FIELDS = [
  ["queue", "Queue", "orders"],
  ["key", "Partition key", "customer-7"],
];

export function open(place, [what, queue, ...named]) {
  const published = h("div", { class: "answer", "aria-live": "polite" });
  const stands = h("div", { class: "answer", "aria-live": "polite" });
  place.append(
    h("h1", {}, "Explain"),
    h("section", {}, h("h2", {}, "Where would this message go?"), form(PUBLISH_FIELDS, "explain/publish", published, publishAnswer), published),
    h("section", {}, h("h2", {}, "Why does this key wait?"), form(KEY_FIELDS, "explain/key", stands, keyAnswer), stands),
  );
  const [publish, wait] = place.querySelectorAll("form");
  const [topic, key] = what === "message" ? named : [null, named[0]]; // `#/explain/key/QUEUE/KEY`, or with the topic before it
  if (topic) submit(publish, { topic, key: key ?? "" });
  if (queue && key) submit(wait, { queue, key });
  return { refresh: async () => {} }; // it only answers the forms
}

/** Fill in a form with what the address names, and send it. */
function submit(made, values) {
  for (const [name, value] of Object.entries(values)) made.elements[name].value = value;
  made.requestSubmit();
}

function form(fields, path, place, answer) {
  const inputs = fields.map(([name, label, hint]) => h("label", { class: "field" }, label, h("input", { name, placeholder: hint, autocomplete: "off" })));
  const made = h("form", { class: "fields" }, inputs, h("button", { class: "primary" }, "Explain"));
  let asked = 0; // number of requests
  made.addEventListener("submit", (event) => {
    event.preventDefault();
    asked += 1;
    const mine = asked;
    const query = Object.fromEntries(new FormData(made).entries());
    place.replaceChildren(); // the old result belongs to another request
    attempt(async () => {
      const found = await get(path, query);
      if (mine === asked) place.replaceChildren(...answer(found));
    });
  });
  return made;
}

function publishAnswer(explained) {
  const table = new LiveTable({
    label: "Destinations",
    columns: [
      { title: "Kind", value: (each) => each.kind, wide: true },
      { title: "Name", value: (each) => each.name },
      { title: "Verdict", value: (each) => each.verdict, cell: verdict },
      { title: "Partition", value: (each) => each.partition ?? "–", numeric: true },
      { title: "Filter", value: (each) => each.filter || "–", wide: true },
      { title: "Why", value: (each) => [each.reason, each.partition_reason].filter(Boolean).join("; ") || "–", long: true },
      { title: "Checks", value: (each) => checks(each.checks), wide: true, long: true },
    ],
    key: (each) => `${each.kind} ${each.name} ${each.filter}`,
    empty: "No client or queue would receive the message.",
  });
  table.show(explained.destinations);
  const line = h("p", {}, verdict(explained), explained.reason ? `: ${explained.reason}` : "", explained.publisher ? `, ${explained.publisher}` : "");
  return [line, table.element];
}

function verdict(each) {
  const refused = ["refused", "dropped"].includes(each.verdict);
  return h("strong", { class: refused ? "wrong" : "good" }, words(each.verdict));
}

/** The checks that refuse the message, and the number of those that pass. */
function checks(made) {
  if (!made.length) return "–";
  const refusing = made.filter((each) => each.refused);
  const passed = `${made.length - refusing.length} of ${made.length} pass`;
  return [...refusing.map((each) => `${words(each.check)}: ${numbers(each)}`), passed].join("; ");
}

function numbers(each) {
  if (each.limit === null) return each.reason || "refused";
  return `${count(each.usage)} + ${count(each.adds)} exceeds ${count(each.limit)} ${each.unit}`.trim();
}

function keyAnswer(explained) {
  const pairs = [
    ...(explained.broker ? [["broker", explained.broker]] : []),
    ["reason", words(explained.reason)],
    ["partition", `${explained.partition}, ${explained.partition_status}`],
    ["client", explained.client ?? "–"],
    ["waiting", count(explained.waiting_count)],
    ["with the consumer", count(explained.in_flight_count)],
    ["oldest waiting", explained.first_waiting ?? "–"],
    ["on disk, not examined", count(explained.unseen_count)],
    ["assignment epoch", String(explained.assignment_epoch)],
    ["key hash", String(explained.key_hash)],
  ];
  return [facts(pairs)];
}
