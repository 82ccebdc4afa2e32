// Message VPNs: the messaging domains of the node. Those of the configuration cannot be changed here.

import { get, patch, post, remove } from "../api/admin.js";
import { actionButton } from "../widgets/access.js";
import { attributeFields, changedAttributes } from "../widgets/attributes.js";
import { ask, attempt, notice } from "../widgets/dialogs.js";
import { h } from "../widgets/elements.js";
import { LiveTable } from "../widgets/table.js";
import { count, counted, size } from "../widgets/words.js";

export const MESSAGE_VPNS = "message-vpns";
export const CHANGED = "message-vpns-changed"; // an event of the window

const CONFIGURED = "configuration"; // the origin of message VPNs that cannot be changed here
const OF_NODE = { ofNode: true };

const path = (name) => `${MESSAGE_VPNS}/${encodeURIComponent(name)}`;

export function open(place) {
  const table = new LiveTable({
    label: "Message VPNs",
    columns: [
      { title: "Name", value: (each) => each.name },
      { title: "State", value: stateWords },
      { title: "Clients", value: (each) => each.connection_count, cell: (each) => count(each.connection_count), numeric: true },
      { title: "Queues", value: (each) => each.endpoint_count, cell: (each) => count(each.endpoint_count), numeric: true },
      { title: "Messages", value: (each) => each.spooled_msg_count, cell: (each) => count(each.spooled_msg_count), numeric: true },
      { title: "Spooled", value: (each) => each.msg_spool_usage_bytes, cell: (each) => size(each.msg_spool_usage_bytes), numeric: true, wide: true },
      { title: "Retained", value: (each) => each.retained_message_count, cell: (each) => count(each.retained_message_count), numeric: true, wide: true },
      { title: "Origin", value: (each) => each.origin, wide: true },
      { title: "", value: () => null, numeric: true, cell: (each) => (each.origin === CONFIGURED ? null : actionButton("Delete", () => attempt(() => drop(each.name)), OF_NODE)) },
    ],
    key: (each) => each.name,
    open: (each) => (each.origin === CONFIGURED ? notice(`${each.name} is defined in the configuration, and can only be changed there`) : attempt(() => change(each.name))),
    sort: { column: 0, descending: false },
    empty: "No message VPNs match.",
  });
  const filter = h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter message VPNs" });
  const tools = h("div", { class: "bar-of-tools" }, filter, actionButton("New message VPN", () => attempt(create), OF_NODE));
  place.append(h("h1", {}, "Message VPNs"), tools, table.element);
  let vpns = [];
  filter.addEventListener("input", show);

  function show() {
    const text = filter.value.trim().toLowerCase();
    table.show(vpns.filter((each) => each.name.toLowerCase().includes(text)));
  }

  async function refresh() {
    vpns = (await get(MESSAGE_VPNS)).message_vpns;
    show();
  }

  async function create() {
    const made = await ask({
      title: "New message VPN",
      confirm: "Create",
      fields: (await attributeFields("MessageVpn", {})).map((each) => (each.name === "name" ? { ...each, required: true } : each)),
      ...OF_NODE,
      action: async (values) => post(MESSAGE_VPNS, await changedAttributes("MessageVpn", {}, values)),
    });
    if (made) await changed();
  }

  async function change(name) {
    const now = given((await get(path(name))).settings);
    const made = await ask({
      title: name,
      text: "Clients of a message VPN that is not enabled are disconnected.",
      confirm: "Change",
      fields: (await attributeFields("MessageVpnChanges", now)).filter((each) => each.name !== "name"),
      ...OF_NODE,
      action: async (values) => patch(path(name), await changedAttributes("MessageVpnChanges", now, values, given((await get(path(name))).settings))),
    });
    if (made) await changed();
  }

  async function drop(name) {
    const has = contents(await get(path(name)));
    const text = has ? `It has ${has}. Clients are disconnected, and everything else is deleted for ever.` : "It has no clients, queues or messages.";
    const gone = await ask({
      title: `Delete message VPN ${name}?`,
      text,
      confirm: "Delete",
      dangerous: true,
      fields: has ? [{ name: "name", label: "Name of the message VPN", required: true, hint: "to confirm that all of this may be deleted" }] : [],
      ...OF_NODE,
      action: async (values) => {
        if (has && values.name !== name) throw new Error(`this is not ${name}: nothing was deleted`);
        await remove(has ? `${path(name)}?force=true` : path(name));
      },
    });
    if (!gone) return;
    notice(`${name} was deleted`);
    await changed();
  }

  async function changed() {
    window.dispatchEvent(new Event(CHANGED));
    await refresh();
  }

  return { refresh, keys: [{ key: "n", meaning: "new message VPN", press: () => attempt(create) }] };
}

function stateWords({ enabled, up }) {
  if (up) return "up";
  return enabled ? "down: it does not start" : "shut down";
}

/** Return what a deletion has to be forced for, as words; empty if there is nothing. */
function contents(view) {
  const parts = [
    [view.connection_count, "client"],
    [view.endpoint_count, "queue"],
    [view.spooled_msg_count, "message"],
    [view.session_count, "MQTT session"],
    [view.retained_message_count, "retained message"],
  ];
  return parts.filter(([number]) => number > 0).map(([number, noun]) => counted(number, noun)).join(", ");
}

/** Omit settings that are not set. */
function given(settings) {
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== null));
}
