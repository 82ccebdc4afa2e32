// Message VPNs: the messaging domains of the node. Those of the configuration cannot be changed here.

import { get, post } from "../../api/admin.js";
import { actionButton } from "../../widgets/access.js";
import { attributeFields, changedAttributes } from "../../widgets/attributes.js";
import { ask, attempt } from "../../widgets/dialogs.js";
import { h } from "../../widgets/elements.js";
import { LiveTable } from "../../widgets/table.js";
import { count, size } from "../../widgets/words.js";
import { CHANGED, CONFIGURED, MESSAGE_VPNS, OF_NODE, dropVpn, stateWords } from "./message-vpn.js";

const address = (name) => `#/${MESSAGE_VPNS}/${encodeURIComponent(name)}`;

export function open(place, _, head) {
  const table = new LiveTable({
    label: "Message VPNs",
    columns: [
      { title: "Name", value: (each) => each.name, cell: (each) => h("a", { href: address(each.name), tabindex: -1 }, each.name) },
      { title: "State", value: stateWords },
      { title: "Clients", value: (each) => each.connection_count, cell: (each) => count(each.connection_count), numeric: true },
      { title: "Queues", value: (each) => each.endpoint_count, cell: (each) => count(each.endpoint_count), numeric: true, wide: true },
      { title: "Messages", value: (each) => each.spooled_msg_count, cell: (each) => count(each.spooled_msg_count), numeric: true, wide: true },
      { title: "Spooled", value: (each) => each.msg_spool_usage_bytes, cell: (each) => size(each.msg_spool_usage_bytes), numeric: true, wide: true },
      { title: "Retained", value: (each) => each.retained_message_count, cell: (each) => count(each.retained_message_count), numeric: true, wide: true },
      { title: "Origin", value: (each) => each.origin, wide: true },
      { title: "", value: () => null, numeric: true, cell: (each) => (each.origin === CONFIGURED ? null : actionButton("Delete", () => attempt(() => drop(each.name)), OF_NODE)) },
    ],
    key: (each) => each.name,
    open: (each) => (location.hash = address(each.name)),
    sort: { column: 0, descending: false },
    empty: "No message VPNs match.",
  });
  const filter = h("input", { type: "search", placeholder: "Filter: sales", "aria-label": "Filter message VPNs", class: "grow" });
  head.append(h("h1", {}, "Message VPNs"), h("div", { class: "bar-of-tools" }, filter));
  place.append(h("div", { class: "bar-of-tools" }, actionButton("New message VPN", () => attempt(create), OF_NODE)), table.element);
  let vpns = null; // not read yet
  filter.addEventListener("input", show);

  function show() {
    if (vpns === null) return;
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
