// One MQTT session: what waits for its client, its subscriptions and its will.

import { get, remove } from "../../api/admin.js";
import { actionButton } from "../../widgets/access.js";
import { ask, attempt, notice } from "../../widgets/dialogs.js";
import { facts, h, setText } from "../../widgets/elements.js";
import { count, counted, moment, size } from "../../widgets/words.js";
import { queueAddress } from "../queues/figures.js";
import { subscriptionsOf, willWords } from "./client.js";
import { clientAddress } from "./clients.js";
import { SESSIONS, expiryWords } from "./sessions.js";

export function open(place, [name]) {
  const path = `${SESSIONS}/${encodeURIComponent(name)}`;
  const about = h("p", { class: "quiet" });
  const state = h("div");
  const client = h("a", { href: clientAddress(name), hidden: true }, "Its client");
  const subscriptions = subscriptionsOf(name);
  place.append(
    h("p", { class: "trail" }, h("a", { href: `#/${SESSIONS}` }, "MQTT sessions"), " /"),
    h("h1", {}, name),
    about,
    h("div", { class: "bar-of-tools" }, actionButton("End session", end, { kind: "danger" }), client),
    state,
    subscriptions.element,
  );

  async function refresh() {
    const view = await get(path);
    setText(about, `${view.connected ? "its client is connected" : `its client is away since ${moment(view.disconnected_ms)}`}, ${counted(view.ready_count, "message")} waiting`);
    client.hidden = !view.connected;
    const made = facts(lines(view), { many: true });
    if (!state.firstChild?.isEqualNode(made)) state.replaceChildren(made);
    await subscriptions.refresh();
  }

  async function end() {
    const gone = await ask({
      title: `End the session of ${name}?`,
      text: "Its subscriptions and the messages that wait for it are deleted, and its will is published. A connected client is disconnected.",
      confirm: "End session",
      dangerous: true,
      action: () => remove(path),
    });
    if (!gone) return;
    notice(`the session of ${name} has ended`);
    location.hash = `#/${SESSIONS}`;
  }

  return { refresh, keys: [{ key: "Delete", meaning: "end the session", press: () => attempt(end) }] };
}

function lines(view) {
  return [
    ...(view.broker ? [["Broker of the machine", view.broker]] : []),
    ["Username that may resume it", view.client_username || "(anybody)"],
    ["Ends", expiryWords(view)],
    ["Messages waiting", count(view.ready_count)],
    ["Messages unacknowledged", count(view.unacked_count)],
    ["Messages of QoS 2 not released", count(view.unreleased_count)],
    ["Spooled", size(view.spooled_bytes)],
    ["Queue", view.queue === null ? "none: no subscription of QoS 1 or 2" : h("a", { href: queueAddress(view.queue) }, view.queue)],
    ["Will that waits", view.will ? willWords(view.will) : "none"],
  ];
}
