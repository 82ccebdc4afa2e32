// Message VPNs: the messaging domains of the node. Those of the configuration cannot be changed here.

import { get, post } from "../../api/admin.js";
import { actionButton } from "../../widgets/access.js";
import { attributeFields, changedAttributes } from "../../widgets/attributes.js";
import { ask, attempt } from "../../widgets/dialogs.js";
import { h } from "../../widgets/elements.js";
import { LiveTable } from "../../widgets/table.js";
import { count, size } from "../../widgets/words.js";
import { CHANGED, CONFIGURED, MESSAGE_VPNS, OF_NODE, dropVpn, stateWords } from "./message-vpn.js";

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
    open: (each) => (location.hash = `#/${MESSAGE_VPNS}/${encodeURIComponent(each.name)}`),
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
    if (!made) return;
    window.dispatchEvent(new Event(CHANGED));
    await refresh();
  }

  async function drop(name) {
    if (await dropVpn(name)) await refresh();
  }

  return { refresh, keys: [{ key: "n", meaning: "new message VPN", press: () => attempt(create) }] };
}
