// One bridge: the state of its connection and rules, and its definition.

import { get, patch, post } from "../../api/admin.js";
import { actionButton, refusal } from "../../widgets/access.js";
import { attributeFields, changedAttributes } from "../../widgets/attributes.js";
import { ask, askToDelete, attempt } from "../../widgets/dialogs.js";
import { h, setText } from "../../widgets/elements.js";
import { LiveTable } from "../../widgets/table.js";
import { count, counted, words } from "../../widgets/words.js";
import { BRIDGES, bridgeWords } from "./bridges.js";

const RULE_COLUMNS = [
  { title: "Rule", value: (each) => each.name, long: true },
  { title: "Direction", value: (each) => each.direction },
  { title: "From", value: (each) => each.source, wide: true },
  { title: "To", value: (each) => each.target, wide: true },
  { title: "State", value: (each) => (each.up ? "up" : each.reason || "down"), long: true },
  { title: "Confirmed", value: (each) => each.messages, cell: (each) => count(each.messages), numeric: true },
  { title: "Unconfirmed", value: (each) => each.unconfirmed, cell: (each) => count(each.unconfirmed), numeric: true, wide: true },
  { title: "Dropped", value: (each) => counts(each.dropped) },
];

export function open(place, [name]) {
  const path = `${BRIDGES}/${encodeURIComponent(name)}`;
  const rules = new LiveTable({ label: "Rules", stacked: true, columns: RULE_COLUMNS, key: (each) => `${each.direction} ${each.name}`, empty: "None." });
  const about = h("p", { class: "quiet" });
  const edits = actionButton("Edit", () => attempt(edit));
  const pauses = actionButton("Pause", () => attempt(() => turn("pause")));
  const resumes = actionButton("Resume", () => attempt(() => turn("resume")));
  const deletes = actionButton("Delete bridge", drop, { kind: "danger" });
  place.append(
    h("p", { class: "trail" }, h("a", { href: `#/${BRIDGES}` }, "Bridges"), " /"),
    h("h1", {}, name),
    about,
    h("div", { class: "bar-of-tools" }, pauses, resumes, edits, deletes),
    h("section", {}, h("h2", {}, "Rules"), rules.element),
  );

  async function refresh() {
    const view = await get(path);
    const fixed = view.origin === "configuration";
    const origin = fixed ? "defined in the configuration" : "created by an operator";
    setText(about, `${bridgeWords(view)}, to ${view.remote_url}, connected ${counted(view.connections, "time")}, ${origin}`);
    for (const button of [edits, deletes]) button.disabled = fixed || refusal() !== null;
    pauses.disabled = view.state === "paused" || view.state === "stopped" || refusal() !== null;
    resumes.disabled = view.up || view.state === "stopped" || refusal() !== null;
    rules.show(view.rules);
  }

  const definition = async () => (await get(path)).definition;

  async function turn(verb) {
    await post(`${path}/${verb}`);
    await refresh();
  }

  async function edit() {
    const before = await definition();
    const changed = await ask({
      title: `Edit ${name}`,
      text: "The bridge connects again. Messages without a confirmation are sent again.",
      confirm: "Change",
      fields: (await attributeFields("BridgeChanges", before)).filter((each) => each.name !== "name"),
      action: async (values) => patch(path, await changedAttributes("BridgeChanges", before, values, await definition())),
    });
    if (changed) await refresh();
  }

  function drop() {
    const text = "Messages that the foreign broker has not confirmed go back to their queues.";
    return askToDelete({ title: `Delete ${name}?`, text, path, name }, () => {
      location.hash = `#/${BRIDGES}`;
    });
  }

  return { refresh, keys: [{ key: "e", meaning: "edit the definition", press: () => attempt(edit) }] };
}

function counts(totals) {
  return Object.entries(totals).map(([what, total]) => `${words(what)} ${count(total)}`).join(", ") || "–";
}
