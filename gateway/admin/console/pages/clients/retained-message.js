// The retained message of one topic, with its payload.

import { get } from "../../api/admin.js";
import { actionButton } from "../../widgets/access.js";
import { askToDelete, attempt } from "../../widgets/dialogs.js";
import { facts, h } from "../../widgets/elements.js";
import { payloadView } from "../../widgets/payload.js";
import { count, moment } from "../../widgets/words.js";
import { RETAINED } from "./retained.js";

export function open(place, [topic]) {
  const path = `${RETAINED}/${encodeURIComponent(topic)}`;
  const content = h("div");
  let shown = "";
  place.append(
    h("p", { class: "trail" }, h("a", { href: `#/${RETAINED}` }, "Retained messages"), " /"),
    h("h1", {}, topic),
    h("div", { class: "bar-of-tools" }, actionButton("Delete", drop, { kind: "danger" })),
    content,
  );

  async function refresh() {
    const view = await get(path);
    const now = JSON.stringify(view);
    if (now === shown) return; // the chosen form of the payload stays
    shown = now;
    content.replaceChildren(facts(lines(view)), ...userProperties(view), h("h2", {}, "Payload"), payloadView(view.payload, view.payload_encoding));
  }

  function drop() {
    const text = "It is deleted at neighbor brokers as well. Present subscribers are not told; new ones get nothing.";
    return askToDelete({ title: "Delete the retained message?", text, path, name: `the retained message of ${topic}` }, () => {
      location.hash = `#/${RETAINED}`;
    });
  }

  return { refresh, keys: [{ key: "Delete", meaning: "delete", press: () => attempt(drop) }] };
}

function lines({ message, correlation_id: correlation, reply_to: reply }) {
  return [
    ["Published", moment(message.published_ms)],
    ["Publisher", message.publisher || "the broker, or unknown since a restart"],
    ["Size", `${count(message.size_bytes)} B`],
    ["QoS", String(message.qos)],
    ["Expires", message.expires_ms === null ? "never" : moment(message.expires_ms)],
    ["Content type", message.content_type ?? "–"],
    ["Reply to", reply ?? "–"],
    ["Correlation ID", correlation ?? "–"],
  ];
}

function userProperties({ user_properties: pairs, properties_truncated: isCut }) {
  const note = isCut ? [h("p", { class: "quiet" }, "Of the properties the beginning is shown.")] : [];
  return pairs.length ? [h("h2", {}, "User properties"), facts(pairs, { verbatim: true }), ...note] : note;
}
