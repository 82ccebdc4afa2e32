// One link to a neighbor broker: its connection, what crosses it in each message VPN, and its definition.

import { get, patch } from "../../api/admin.js";
import { actionButton, refusal } from "../../widgets/access.js";
import { bar } from "../../widgets/charts.js";
import { attributeFields, changedAttributes } from "../../widgets/attributes.js";
import { ask, askToDelete, attempt } from "../../widgets/dialogs.js";
import { facts, h, setText } from "../../widgets/elements.js";
import { LiveTable } from "../../widgets/table.js";
import { count, moment, size, words } from "../../widgets/words.js";
import { LINKS, NETWORK, linkWords, overVpns } from "./network.js";

const numbers = (title, name, more = {}) => ({ title, value: (each) => each[name], cell: (each) => count(each[name]), numeric: true, ...more });

/** A column with what was sent and what was received. */
const bothWays = (title, about, kind) => ({
  title,
  about,
  value: (each) => each[`${kind}_sent`],
  cell: (each) => `${count(each[`${kind}_sent`])} / ${count(each[`${kind}_received`])}`,
  numeric: true,
  wide: true,
});

const VPN_COLUMNS = [
  { title: "Message VPN", value: (each) => each.vpn_name },
  { title: "At the neighbor", value: (each) => each.neighbor_vpn_name, wide: true },
  { title: "State", value: (each) => (each.complete ? "linked" : each.linked ? "being told what the neighbor wants" : "not linked") },
  numbers("Exported", "exported_count", { about: "Subscriptions that this broker tells the neighbor", wide: true }),
  numbers("Imported", "imported_count", { about: "Subscriptions that the neighbor tells this broker", wide: true }),
  {
    title: "Queue",
    value: (each) => each.queued_bytes,
    cell: (each) => bar(each.queued_bytes, each.queue_quota_bytes, `${count(each.queued_count)}, ${size(each.queued_bytes)} of ${size(each.queue_quota_bytes)}`),
  },
  numbers("In flight", "in_flight_count", { about: "Sent to the neighbor, which has not confirmed them", wide: true }),
  bothWays("Guaranteed out / in", "Guaranteed messages that the neighbor has taken, and that came from it", "guaranteed"),
  bothWays("Retained out / in", "Retained messages that the neighbor has taken, and that came from it", "retained"),
  numbers("No room", "waiting_for_room", { about: "Messages that came, and for which this broker has no room now", wide: true }),
];

export function open(place, [name]) {
  const path = `${LINKS}/${encodeURIComponent(name)}`;
  const vpns = new LiveTable({ label: "Message VPNs", stacked: true, columns: VPN_COLUMNS, key: (each) => each.vpn_name, empty: "None is linked." });
  const about = h("p", { class: "quiet" });
  const figures = h("div");
  const edits = actionButton("Edit", () => attempt(edit), { ofNode: true });
  const turns = actionButton("Shut down", () => attempt(turn), { ofNode: true });
  const deletes = actionButton("Delete link", drop, { kind: "danger", ofNode: true });
  let enabled = true;
  place.append(
    h("p", { class: "trail" }, h("a", { href: `#/${NETWORK}` }, "Network"), " /"),
    h("h1", {}, name),
    about,
    h("div", { class: "bar-of-tools" }, turns, edits, deletes),
    h("section", {}, h("h2", {}, "Message VPNs"), vpns.element),
    h("section", {}, h("h2", {}, "Connection"), figures),
  );

  async function refresh() {
    const view = await get(path);
    const fixed = view.origin === "configuration";
    enabled = view.enabled;
    setText(about, `${linkWords(view)}, ${fixed ? "defined in the configuration" : "created by an operator"}`);
    setText(turns, enabled ? "Shut down" : "Enable");
    for (const button of [edits, turns, deletes]) button.disabled = fixed || refusal("read-write", true) !== null;
    vpns.show(view.message_vpns);
    figures.replaceChildren(facts([
      ["address", view.remote_address || "–"],
      ["encrypted", view.encrypted ? "yes" : "no"],
      ["connected by", view.initiator === "local" ? "this broker" : view.initiator === "remote" ? "the neighbor" : "–"],
      [view.up ? "up since" : "down since", view.since_ms ? moment(view.since_ms) : "–"],
      ["connections made", `${count(view.connects)} of ${count(view.dials)} attempts`],
      ["refusals", counts(view.refusals)],
      ["direct messages sent", count(view.messages_sent)],
      ["direct messages received", count(overVpns(view, "messages_received"))],
      ["messages dropped", count(view.messages_dropped)],
      ["waiting for the socket", size(view.waiting_bytes)],
    ]));
  }

  const definition = async () => (await get(path)).definition;

  async function turn() {
    await patch(path, { enabled: !enabled });
    await refresh();
  }

  async function edit() {
    const before = await definition();
    const changed = await ask({
      title: `Edit the link to ${name}`,
      text: "The link begins anew. Guaranteed messages wait meanwhile; direct ones are dropped.",
      confirm: "Change",
      ofNode: true,
      fields: (await attributeFields("LinkChanges", before)).filter((each) => each.name !== "name"),
      action: async (values) => patch(path, await changedAttributes("LinkChanges", before, values, await definition())),
    });
    if (changed) await refresh();
  }

  function drop() {
    const text = "Messages in the queues of the link stay. Remove them with: sluicegate link forget";
    return askToDelete({ title: `Delete the link to ${name}?`, text, path, name }, () => {
      location.hash = `#/${NETWORK}`;
    });
  }

  return { refresh, keys: [{ key: "e", meaning: "edit the definition", press: () => attempt(edit) }] };
}

function counts(totals) {
  return Object.entries(totals).map(([what, total]) => `${words(what)} ${count(total)}`).join(", ") || "–";
}
