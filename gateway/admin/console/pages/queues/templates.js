// Queue templates: attributes for new queues, by name.

import { get, patch, post } from "../../api/admin.js";
import { actionButton } from "../../widgets/access.js";
import { attributeFields, changedAttributes } from "../../widgets/attributes.js";
import { ask, askToDelete, attempt } from "../../widgets/dialogs.js";
import { h } from "../../widgets/elements.js";
import { LiveTable } from "../../widgets/table.js";
import { attributeText, attributeValue } from "../../widgets/units.js";

const path = (name) => `queue-templates/${encodeURIComponent(name)}`;

export function open(place) {
  const table = new LiveTable({
    label: "Queue templates",
    stacked: true,
    columns: [
      { title: "Name", value: (each) => each.name },
      { title: "For queues", value: (each) => each.queue_name_filter },
      { title: "Durability", value: (each) => (each.durability_override === "none" ? "–" : each.durability_override), wide: true },
      { title: "Sets", value: sets, long: true },
      { title: "", value: () => null, numeric: true, cell: (each) => h("span", { class: "row-tools" }, actionButton("Edit", () => attempt(() => change(each)), { kind: "wide" }), actionButton("Delete", () => drop(each.name))) },
    ],
    key: (each) => each.name,
    open: (each) => attempt(() => change(each)),
    sort: { column: 0, descending: false },
    empty: "No queue templates. A template gives attributes to new queues whose names match its filter.",
  });
  place.append(
    h("p", { class: "trail" }, h("a", { href: "#/queues" }, "Queues"), " /"),
    h("h1", {}, "Queue templates"),
    h("div", { class: "bar-of-tools" }, actionButton("New template", () => attempt(create))),
    table.element,
  );

  async function refresh() {
    table.show((await get("queue-templates")).templates);
  }

  async function create() {
    const [name, filter, ...others] = await attributeFields("QueueTemplate", {});
    const made = await ask({
      title: "New template",
      confirm: "Create",
      fields: [{ ...name, required: true, hint: "of the template" }, { ...filter, required: true }, ...others],
      action: async (values) => post("queue-templates", await changedAttributes("QueueTemplate", {}, values)),
    });
    if (made) await refresh();
  }

  async function change(template) {
    const made = await ask({
      title: template.name,
      text: "Existing queues stay as they are.",
      confirm: "Change",
      fields: await attributeFields("QueueTemplateChanges", template),
      action: async (values) => patch(path(template.name), await changedAttributes("QueueTemplateChanges", template, values, await get(path(template.name)))),
    });
    if (made) await refresh();
  }

  function drop(name) {
    const text = "Existing queues stay as they are.";
    return askToDelete({ title: `Delete template ${name}?`, text, path: path(name), name }, refresh);
  }

  return { refresh, keys: [{ key: "n", meaning: "new template", press: () => attempt(create) }] };
}

function sets({ name, queue_name_filter, durability_override, ...attributes }) {
  return Object.entries(attributes).map(([attribute, value]) => `${attributeText(attribute)}: ${attributeValue(attribute, value)}`).join(", ") || "–";
}
