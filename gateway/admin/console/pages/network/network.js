// The network of brokers: a picture, and the links of this broker.

import { get, post } from "../../api/admin.js";
import { Rates } from "../../api/rates.js";
import { actionButton } from "../../widgets/access.js";
import { ask, attempt } from "../../widgets/dialogs.js";
import { h, setText } from "../../widgets/elements.js";
import { LiveTable } from "../../widgets/table.js";
import { count, rate } from "../../widgets/words.js";
import { BRIDGES, bridgeAddress, carried } from "../bridges/bridges.js";
import { NetworkPicture, legend } from "./picture.js";

export const NETWORK = "network";
export const LINKS = "links";

export function linkAddress(name) {
  return `#/${NETWORK}/${encodeURIComponent(name)}`;
}

/** Return the state as a text, with the reason if it is not up. */
export function linkWords({ enabled, up, reason }) {
  if (up) return "up";
  if (!enabled) return "shut down";
  return reason ? `down: ${reason}` : "down";
}

/** The sum of a figure over the message VPNs of a link. */
export function overVpns(link, figure) {
  return link.message_vpns.reduce((sum, each) => sum + each[figure], 0);
}

const numbers = (title, about, figure) => ({ title, about, value: figure, cell: (each) => count(figure(each)), numeric: true, wide: true });

const COLUMNS = [
  { title: "Neighbor", value: (each) => each.name, cell: (each) => h("a", { href: linkAddress(each.name), tabindex: -1 }, each.name) },
  { title: "State", value: linkWords, long: true },
  { title: "Address", value: (each) => each.remote_address || "–", wide: true },
  { title: "Message VPNs", value: (each) => each.message_vpns.map((vpn) => vpn.vpn_name).join(", "), wide: true },
  numbers("Exported", "Subscriptions that this broker tells the neighbor", (each) => overVpns(each, "exported_count")),
  numbers("Imported", "Subscriptions that the neighbor tells this broker", (each) => overVpns(each, "imported_count")),
  { title: "Out /s", value: (each) => each.out, cell: (each) => rate(each.out), numeric: true },
  { title: "In /s", value: (each) => each.in, cell: (each) => rate(each.in), numeric: true },
  { title: "Backlog", about: "Guaranteed messages that wait here for the neighbor", value: (each) => each.backlog, cell: (each) => count(each.backlog), numeric: true },
  numbers("Dropped", "Direct messages for the neighbor that were lost", (each) => each.messages_dropped),
];

export function open(place) {
  const rates = new Rates();
  const picture = new NetworkPicture();
  const about = h("p", { class: "quiet" });
  const missing = h("p", { class: "wrong", hidden: true });
  const table = new LiveTable({
    label: "Links",
    columns: COLUMNS,
    key: (each) => each.name,
    open: (each) => (location.hash = linkAddress(each.name)),
    sort: { column: 0, descending: false },
    empty: "No links: this broker is alone. A link joins it to another Sluicegate; messages then go where they are subscribed to.",
  });
  const figure = h("section", { class: "picture", hidden: true }, picture.element, legend());
  const tools = h("div", { class: "bar-of-tools" }, actionButton("New link", () => attempt(create), { ofNode: true }));
  place.append(h("h1", {}, "Network"), about, missing, figure, tools, table.element);

  async function refresh() {
    const [view, { bridges }] = await Promise.all([get(LINKS), get(BRIDGES)]);
    const nowMs = performance.now();
    setText(about, `This broker is ${view.broker}, of the network ${view.network}.`);
    const links = view.links.map((link) => ({
      ...link,
      backlog: overVpns(link, "queued_count"),
      out: rates.add(`${link.name} out`, link.messages_sent + overVpns(link, "guaranteed_sent"), nowMs),
      in: rates.add(`${link.name} in`, overVpns(link, "messages_received") + overVpns(link, "guaranteed_received"), nowMs),
    }));
    table.show(links);
    const lacking = [...new Set(view.missing_links.map((each) => each.name))];
    missing.hidden = lacking.length === 0;
    setText(missing, `Neighbors are linked to ${lacking.join(", ")}, and this broker is not. Messages reach every broker only if all are linked to each other.`);
    const foreign = bridges.filter((each) => each.enabled).map((each) => ({
      name: each.name,
      url: each.remote_url,
      state: each.up ? "up" : "down",
      out: rates.add(`bridge ${each.name} out`, carried(each, "outgoing"), nowMs),
      in: rates.add(`bridge ${each.name} in`, carried(each, "incoming"), nowMs),
      open: bridgeAddress(each.name),
    }));
    figure.hidden = links.length + lacking.length + foreign.length === 0;
    picture.show(view.broker, [
      ...links.map((each) => ({ ...each, state: each.up ? "up" : "down", open: linkAddress(each.name) })),
      ...lacking.filter((name) => !links.some((each) => each.name === name)).map((name) => ({ name, state: "missing" })),
      ...foreign,
    ]);
  }

  return { refresh, keys: [{ key: "n", meaning: "new link", press: () => attempt(create) }] };
}

function create() {
  return ask({
    title: "New link",
    text: "The link has the name of the neighbor broker. Without an address it waits until the neighbor connects.",
    confirm: "Create",
    ofNode: true,
    fields: [
      { name: "name", label: "Neighbor", required: true },
      { name: "url", label: "Address", placeholder: "flow://HOST" },
    ],
    action: async ({ name, url }) => {
      await post(LINKS, { name, url });
      location.hash = linkAddress(name);
    },
  });
}
