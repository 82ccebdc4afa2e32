// The events of the node, latest first.

import { get } from "../api/admin.js";
import { h, setText } from "../widgets/elements.js";
import { LiveTable } from "../widgets/table.js";
import { moment } from "../widgets/words.js";

const EVENTS_MAX = 1000; // a node keeps no more
const LEVELS = ["info", "notice", "warning", "error"];

/** The key of an event, unique across restarts of the node. */
const keyOf = (each) => `${each.number} ${each.time_ms}`;

/** What happened, for people: the text without its head for machines, and with the client that it is about. */
export function eventWords({ scope, event, text, vpn, client }) {
  const head = `${scope}: ${event}: ${vpn ?? "-"} ${client ?? "-"} `;
  if (!text.startsWith(head)) return text;
  const what = text.slice(head.length);
  return client === null || what.includes(client) ? what : `${client}: ${what}`;
}

/** Return a table of events. */
export function eventTable(label) {
  const at = (each) => {
    const [day, time] = moment(each.time_ms).split(" ");
    return h("span", {}, h("span", { class: "wide" }, `${day} `), time);
  };
  const text = (each) => h("span", { class: `level-${each.level}`, title: each.text }, eventWords(each));
  return new LiveTable({
    label,
    columns: [
      { title: "Time", value: (each) => each.time_ms, cell: at },
      { title: "Level", value: (each) => each.level, wide: true },
      { title: "Event", value: (each) => each.text, cell: text, long: true },
      { title: "Message VPN", value: (each) => each.vpn ?? "–", wide: true },
      { title: "Name", value: (each) => each.event, cell: (each) => h("span", { class: "quiet" }, each.event), wide: true, whole: true },
    ],
    key: keyOf,
    empty: "No events yet.",
  });
}

async function eventsAfter(number) {
  return (await get("events", { after: number, limit: EVENTS_MAX })).events;
}

export function open(place, [only = ""], head) {
  let known = null; // latest first; not read yet
  const table = eventTable("Events");
  const filter = h("input", { type: "search", value: only, placeholder: "Filter: spool", "aria-label": "Filter events", class: "grow" });
  const level = h("select", { "aria-label": "Lowest level" }, LEVELS.map((each) => h("option", { value: each }, each)));
  head.append(h("h1", {}, "Events"), h("div", { class: "bar-of-tools" }, filter, h("label", {}, "From level ", level)));
  place.append(table.element);
  for (const input of [filter, level]) input.addEventListener("input", show);

  function show() {
    if (known === null) return;
    const text = filter.value.trim().toLowerCase();
    const lowest = LEVELS.indexOf(level.value);
    setText(table.empty, known.length ? "No events match." : "No events yet.");
    table.show(known.filter((each) => LEVELS.indexOf(each.level) >= lowest && each.text.toLowerCase().includes(text)));
  }

  async function refresh() {
    const [newest] = known ?? [];
    // Numbers restart with the node. The newest event is read again: if it differs, the node restarted.
    let events = await eventsAfter(newest ? newest.number - 1 : 0);
    if (newest) events = events[0] && keyOf(events[0]) === keyOf(newest) ? events.slice(1) : await eventsAfter(0);
    known = [...events.toReversed(), ...(known ?? [])].slice(0, EVENTS_MAX);
    show();
  }

  return { refresh };
}
