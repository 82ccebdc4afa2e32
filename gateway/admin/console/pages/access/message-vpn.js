// One message VPN: its history, its usage of its limits, and its settings.

import { chooseVpn, get, patch, remove, vpn } from "../../api/admin.js";
import { actionButton, refusal } from "../../widgets/access.js";
import { NO_LIMIT, attributeFields, changedAttributes, valueWords } from "../../widgets/attributes.js";
import { bar } from "../../widgets/charts.js";
import { ask, attempt, notice } from "../../widgets/dialogs.js";
import { OF_VPN } from "../../widgets/drawn.js";
import { facts, h, setText } from "../../widgets/elements.js";
import { TimeCharts } from "../../widgets/time-charts.js";
import { attributeName } from "../../widgets/units.js";
import { count, counted, size } from "../../widgets/words.js";

export const MESSAGE_VPNS = "message-vpns";
export const CHANGED = "message-vpns-changed"; // an event of the window
export const CONFIGURED = "configuration"; // the origin of message VPNs that cannot be changed here
export const OF_NODE = { ofNode: true };

const path = (name) => `${MESSAGE_VPNS}/${encodeURIComponent(name)}`;

export function open(place, [name]) {
  const charts = new TimeCharts({ path: "history/message-vpn", query: { vpn: name }, drawn: OF_VPN });
  const about = h("p", { class: "quiet" });
  const usage = h("div", { class: "gauges" });
  const settings = h("div");
  const edits = actionButton("Edit", () => attempt(edit), OF_NODE);
  const deletes = actionButton("Delete message VPN", () => attempt(drop), { ...OF_NODE, kind: "danger" });
  const chooses = h("button", { type: "button", onclick: choose, disabled: name === vpn(), title: name === vpn() ? "the pages show this message VPN" : null }, "Show its queues and clients");
  place.append(
    h("p", { class: "trail" }, h("a", { href: `#/${MESSAGE_VPNS}` }, "Message VPNs"), " /"),
    h("h1", {}, name),
    about,
    h("div", { class: "bar-of-tools" }, chooses, edits, deletes),
    charts.element,
    h("section", {}, h("h2", {}, "Usage"), usage),
    h("section", {}, h("h2", {}, "Settings"), settings),
  );

  async function refresh() {
    const [view, known] = await Promise.all([get(path(name)), valueWords("MessageVpn")]);
    await charts.refresh();
    const fixed = view.origin === CONFIGURED;
    setText(about, `${stateWords(view)}, ${fixed ? "defined in the configuration file, and changed there" : `created by an ${view.origin}`}`);
    for (const button of [edits, deletes]) button.disabled = fixed || refusal("read-write", true) !== null;
    usage.replaceChildren(...gauges(view, known));
    const made = facts(Object.entries(given(view.settings)).map(([setting, value]) => [attributeName(setting), typeof value === "object" ? JSON.stringify(value) : known(setting, value)]), { many: true });
    if (!settings.firstChild?.isEqualNode(made)) settings.replaceChildren(made);
  }

  function choose() {
    chooseVpn(name);
    location.hash = "#/queues";
    location.reload(); // account and message VPN are read anew
  }

  async function edit() {
    if (await changeVpn(name)) await refresh();
  }

  async function drop() {
    if (await dropVpn(name)) location.hash = `#/${MESSAGE_VPNS}`;
  }

  return { refresh, keys: [{ key: "e", meaning: "edit the settings", press: () => attempt(edit) }] };
}

/** How much of its limits is in use. `known` returns a setting as words. */
function gauges(view, known) {
  const line = (title, now, most, limit, form) => {
    const isLimited = known(limit, most) !== NO_LIMIT;
    return h("div", { class: "gauge" }, h("span", {}, title), bar(now, isLimited ? most : 0, isLimited ? `${form(now)} of ${form(most)}` : `${form(now)}, no limit`));
  };
  return [
    line("Clients", view.connection_count, view.settings.max_connection_count, "max_connection_count", count),
    line("Queues", view.endpoint_count, view.settings.max_endpoint_count, "max_endpoint_count", count),
    line("Spool", view.msg_spool_usage_bytes, view.max_msg_spool_usage_bytes, "usage_bytes_max", size),
    line("Subscriptions", view.subscription_bytes, view.max_subscription_bytes, "subscription_bytes_max", size),
    line("Sessions", view.kept_session_count, view.max_mqtt_session_count, "max_mqtt_session_count", count),
    line("Session data", view.session_bytes, view.max_session_bytes, "session_bytes_max", size),
    line("Retained", view.retained_message_count, view.max_retained_message_count, "max_retained_message_count", count),
    line("Retained data", view.retained_message_bytes, view.max_retained_message_bytes, "retained_bytes_max", size),
    h("p", { class: "quiet" }, `${counted(view.spooled_msg_count, "message")} in the spool, ${counted(view.subscription_count, "subscription")}, ${counted(view.session_count, "MQTT session")}; sessions count against their limit while their clients are away.`),
  ];
}

/** Return the state of a message VPN as words. */
export function stateWords({ enabled, up }) {
  if (up) return "up";
  return enabled ? "down: it does not start" : "shut down";
}

/** Ask for changes of a message VPN; return whether there were any. */
async function changeVpn(name) {
  const now = given((await get(path(name))).settings);
  const made = await ask({
    title: name,
    text: "Clients of a message VPN that is not enabled are disconnected.",
    confirm: "Change",
    fields: (await attributeFields("MessageVpnChanges", now)).filter((each) => each.name !== "name"),
    ...OF_NODE,
    action: async (values) => patch(path(name), await changedAttributes("MessageVpnChanges", now, values, given((await get(path(name))).settings))),
  });
  if (made) window.dispatchEvent(new Event(CHANGED));
  return made;
}

/** Ask to delete a message VPN, by its name if it has contents; return whether it was. */
export async function dropVpn(name) {
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
  if (!gone) return false;
  notice(`${name} was deleted`);
  window.dispatchEvent(new Event(CHANGED));
  return true;
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
