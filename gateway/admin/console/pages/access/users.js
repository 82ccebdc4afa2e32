// Users: the client accounts of the message VPN. Users of the configuration cannot be changed here.

import { get, patch, post } from "../../api/admin.js";
import { actionButton } from "../../widgets/access.js";
import { attributeFields, changedAttributes } from "../../widgets/attributes.js";
import { ask, askToDelete, attempt, notice } from "../../widgets/dialogs.js";
import { h, setText } from "../../widgets/elements.js";
import { LiveTable } from "../../widgets/table.js";
import { count } from "../../widgets/words.js";

const MADE_HERE = "operator"; // the origin of users that can be changed here
const NEW = { enabled: true, client_profile: "default", acl_profile: "default" };

const path = (name) => `users/${encodeURIComponent(name)}`;

const EMPTY = "No users. New user makes an account with which clients sign in.";

export function open(place, _, head) {
  const table = new LiveTable({
    label: "Users",
    columns: [
      { title: "Name", value: (each) => each.name },
      { title: "State", value: stateWords },
      { title: "Client profile", value: (each) => each.client_profile, wide: true },
      { title: "ACL profile", value: (each) => each.acl_profile, wide: true },
      { title: "Connections", value: (each) => each.connected_count, cell: (each) => count(each.connected_count), numeric: true },
      { title: "Origin", value: (each) => each.origin, wide: true },
      { title: "", value: () => null, numeric: true, cell: (each) => (each.origin === MADE_HERE ? h("span", { class: "row-tools" }, actionButton("Edit", () => attempt(() => change(each)), { kind: "wide" }), actionButton("Delete", () => drop(each.name))) : null) },
    ],
    key: (each) => each.name,
    open: (each) => (each.origin === MADE_HERE ? attempt(() => change(each)) : notice(`${each.name} is defined in the configuration, and can only be changed there`)),
    sort: { column: 0, descending: false },
    empty: EMPTY,
  });
  const filter = h("input", { type: "search", placeholder: "Filter: ada", "aria-label": "Filter users", class: "grow" });
  head.append(h("h1", {}, "Users"), h("div", { class: "bar-of-tools" }, filter));
  place.append(h("div", { class: "bar-of-tools" }, actionButton("New user", () => attempt(create))), table.element);
  let users = null; // not read yet
  filter.addEventListener("input", show);

  function show() {
    if (users === null) return;
    const text = filter.value.trim().toLowerCase();
    table.show(users.filter((each) => each.name.toLowerCase().includes(text)));
    setText(table.empty, text ? "No users match." : EMPTY);
  }

  async function refresh() {
    users = (await get("users")).users;
    show();
  }

  async function create() {
    const made = await ask({
      title: "New user",
      confirm: "Create",
      fields: (await fieldsOf("User", NEW)).map((each) => (each.name === "name" ? { ...each, required: true } : each)),
      action: async (values) => post("users", await changedAttributes("User", NEW, values)),
    });
    if (made) await refresh();
  }

  async function change(user) {
    const made = await ask({
      title: user.name,
      text: "Clients of a user that is not enabled are disconnected. Leave the password empty to keep it.",
      confirm: "Change",
      fields: (await fieldsOf("UserChanges", user)).filter((each) => each.name !== "name"),
      action: async (values) => patch(path(user.name), await changedAttributes("UserChanges", user, values, await get(path(user.name)))),
    });
    if (made) await refresh();
  }

  function drop(name) {
    const text = "Its clients are disconnected. Their sessions and queues stay.";
    return askToDelete({ title: `Delete user ${name}?`, text, path: path(name), name }, refresh);
  }

  return { refresh, keys: [{ key: "n", meaning: "new user", press: () => attempt(create) }] };
}

function stateWords({ enabled, reason }) {
  if (!enabled) return "shut down";
  return reason ? `shut down: ${reason}` : "enabled";
}

/** Return the fields of a user, with the existing profiles as choices, and its own profile even if that was deleted. */
async function fieldsOf(schema, now) {
  const [fields, profiles] = await Promise.all([attributeFields(schema, now), get("profiles")]);
  return fields.map((field) => {
    const known = profiles[`${field.name}s`];
    return known ? { ...field, choices: [...new Set([field.value, ...known.map((each) => each.name)])] } : field;
  });
}
