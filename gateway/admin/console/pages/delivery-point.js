// One REST delivery point: the state of its queues and web servers, and its definition.

import { get, patch } from "../api/admin.js";
import { actionButton, refusal } from "../widgets/access.js";
import { attributeFields, changedAttributes } from "../widgets/attributes.js";
import { bar } from "../widgets/charts.js";
import { ask, askToDelete, attempt } from "../widgets/dialogs.js";
import { h, setText } from "../widgets/elements.js";
import { LiveTable } from "../widgets/table.js";
import { count, words } from "../widgets/words.js";
import { POINTS, pointWords, upWords } from "./delivery-points.js";
import { queueAddress } from "./queues/figures.js";

const BINDING_COLUMNS = [
  { title: "Queue", value: (each) => each.queue, cell: (each) => h("a", { href: queueAddress(each.queue), tabindex: -1 }, each.queue) },
  { title: "State", value: upWords, long: true },
  { title: "Request target", value: (each) => each.post_request_target, wide: true },
  { title: "Messages", value: (each) => counts(each.messages) },
];

const CONSUMER_COLUMNS = [
  { title: "REST consumer", value: (each) => each.name },
  { title: "State", value: upWords, long: true },
  { title: "URL", value: (each) => each.url, wide: true },
  { title: "Connections", value: (each) => each.connections_in_use, cell: connections, wide: true },
  { title: "Requests", value: (each) => counts(each.requests) },
];

export function open(place, [name]) {
  const path = `${POINTS}/${encodeURIComponent(name)}`;
  const bindings = new LiveTable({ label: "Queue bindings", stacked: true, columns: BINDING_COLUMNS, key: (each) => each.queue, empty: "None." });
  const consumers = new LiveTable({ label: "REST consumers", stacked: true, columns: CONSUMER_COLUMNS, key: (each) => each.name, empty: "None." });
  const about = h("p", { class: "quiet" });
  const edits = actionButton("Edit", () => attempt(edit));
  const deletes = actionButton("Delete delivery point", drop, { kind: "danger" });
  place.append(
    h("p", { class: "trail" }, h("a", { href: `#/${POINTS}` }, "Delivery points"), " /"),
    h("h1", {}, name),
    about,
    h("div", { class: "bar-of-tools" }, edits, deletes),
    h("section", {}, h("h2", {}, "Queue bindings"), bindings.element),
    h("section", {}, h("h2", {}, "REST consumers"), consumers.element),
  );

  async function refresh() {
    const view = await get(path);
    const fixed = view.origin === "configuration";
    setText(about, `${pointWords(view)}, ${fixed ? "defined in the configuration" : "created by an operator"}`);
    for (const button of [edits, deletes]) button.disabled = fixed || refusal() !== null;
    bindings.show(view.queue_bindings);
    consumers.show(view.rest_consumers);
  }

  const definition = async () => (await get(path)).definition;

  async function edit() {
    const before = await definition();
    const changed = await ask({
      title: `Edit ${name}`,
      text: "The delivery point restarts. Messages in flight are sent again.",
      confirm: "Change",
      fields: (await attributeFields("RestDeliveryPointChanges", before)).filter((each) => each.name !== "name"),
      action: async (values) => patch(path, await changedAttributes("RestDeliveryPointChanges", before, values, await definition())),
    });
    if (changed) await refresh();
  }

  function drop() {
    const text = "Messages that it has not settled go back to their queues.";
    return askToDelete({ title: `Delete ${name}?`, text, path, name }, () => {
      location.hash = `#/${POINTS}`;
    });
  }

  return { refresh, keys: [{ key: "e", meaning: "edit the definition", press: () => attempt(edit) }] };
}

function counts(totals) {
  return Object.entries(totals).map(([what, total]) => `${words(what)} ${count(total)}`).join(", ") || "–";
}

function connections(each) {
  return bar(each.connections_in_use, each.connections_max, `${each.connections_in_use} of ${each.connections_max}`);
}
