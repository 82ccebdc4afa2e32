// Client profiles and ACL profiles: what the clients of a user may do.

import { get, patch, post } from "../../api/admin.js";
import { actionButton, refusal } from "../../widgets/access.js";
import { attributeFields, changedAttributes, valueWords } from "../../widgets/attributes.js";
import { ask, askToDelete, attempt, show } from "../../widgets/dialogs.js";
import { facts, h } from "../../widgets/elements.js";
import { LiveTable } from "../../widgets/table.js";
import { attributeName } from "../../widgets/units.js";
import { counted, words } from "../../widgets/words.js";

export const PROFILES = "profiles";

const MADE_HERE = "operator"; // the origin of profiles that can be changed here

let wordsOf = null; // of the settings of a client profile, once its schema is known
const limit = (title, name, more = {}) => ({ title, value: (each) => each[name], cell: (each) => (wordsOf ? wordsOf(name, each[name]) : "…"), numeric: true, ...more });

const CLIENT = {
  noun: "client profile",
  path: "client-profiles",
  schema: "ClientProfile",
  columns: [
    limit("Connections", "max_connection_count"),
    limit("Subscriptions", "max_subscription_count", { wide: true }),
    limit("Messages /s", "max_msg_rate", { wide: true }),
    { title: "May not", value: forbidden, long: true, wide: true },
  ],
};

const ACL = {
  noun: "ACL profile",
  path: "acl-profiles",
  schema: "AclProfile",
  columns: [
    { title: "Connect", value: (each) => ruleWords(each, "client_connect"), wide: true },
    { title: "Publish", value: (each) => ruleWords(each, "publish_topic") },
    { title: "Subscribe", value: (each) => ruleWords(each, "subscribe_topic") },
    { title: "Share names", value: (each) => ruleWords(each, "subscribe_share_name"), wide: true },
  ],
};

export function open(place) {
  const kinds = [profileTable(CLIENT), profileTable(ACL)];
  place.append(
    h("h1", {}, "Profiles"),
    h("p", { class: "quiet" }, "Each user has one of both kinds. A change is in force at once, for connected clients as well."),
    ...kinds.map((each) => each.section),
  );

  async function refresh() {
    const found = await get(PROFILES);
    kinds[1].table.show(found.acl_profiles);
    kinds[0].table.show(found.client_profiles);
    if (wordsOf) return;
    wordsOf = await valueWords(CLIENT.schema); // the gateway takes a moment to make it for the first time
    kinds[0].table.show(found.client_profiles);
  }

  function profileTable(kind) {
    const remove = (each) => (each.origin === MADE_HERE ? h("span", { class: "row-tools" }, actionButton("Edit", () => attempt(() => change(kind, each)), { kind: "wide" }), actionButton("Delete", () => drop(kind, each.name))) : null);
    const table = new LiveTable({
      label: `${capital(kind.noun)}s`,
      stacked: true,
      columns: [
        { title: "Name", value: (each) => each.name },
        ...kind.columns,
        { title: "Origin", value: (each) => each.origin, wide: true },
        { title: "", value: () => null, numeric: true, cell: remove },
      ],
      key: (each) => each.name,
      open: (each) => attempt(() => (each.origin === MADE_HERE && refusal() === null ? change(kind, each) : showProfile(kind, each))),
      empty: `No ${kind.noun}s.`,
    });
    const tools = h("div", { class: "bar-of-tools" }, actionButton(`New ${kind.noun}`, () => attempt(() => create(kind))));
    return { table, section: h("section", {}, h("h2", {}, `${capital(kind.noun)}s`), tools, table.element) };
  }

  async function create(kind) {
    const made = await ask({
      title: `New ${kind.noun}`,
      confirm: "Create",
      fields: (await attributeFields(kind.schema, {})).map((each) => (each.name === "name" ? { ...each, required: true } : each)),
      action: async (values) => post(kind.path, await changedAttributes(kind.schema, {}, values)),
    });
    if (made) await refresh();
  }

  async function change(kind, profile) {
    const path = `${kind.path}/${encodeURIComponent(profile.name)}`;
    const schema = `${kind.schema}Changes`;
    const made = await ask({
      title: profile.name,
      text: "The change is in force at once, for connected clients as well.",
      confirm: "Change",
      fields: (await attributeFields(schema, profile)).filter((each) => each.name !== "name"),
      action: async (values) => patch(path, await changedAttributes(schema, profile, values, await get(path))),
    });
    if (made) await refresh();
  }

  function drop(kind, name) {
    const path = `${kind.path}/${encodeURIComponent(name)}`;
    return askToDelete({ title: `Delete ${kind.noun} ${name}?`, text: "The gateway refuses it while a user has it.", path, name }, refresh);
  }

  return { refresh, keys: [{ key: "n", meaning: "new ACL profile", press: () => attempt(() => create(ACL)) }] };
}

/** Show a profile that cannot be changed here. */
async function showProfile(kind, { name, origin, ...settings }) {
  const known = await valueWords(CLIENT.schema);
  const lines = Object.entries(settings).map(([setting, value]) => [attributeName(setting), settingWords(known, setting, value)]);
  const why = origin === MADE_HERE ? "Your account may not change it." : "It is defined in the configuration file, and can only be changed there.";
  show(name, h("div", {}, h("p", { class: "quiet" }, `${capital(kind.noun)}. ${why}`), facts(lines)));
}

function settingWords(known, setting, value) {
  if (Array.isArray(value)) return value.map((each) => (typeof each === "string" ? each : `${each.topic} (${each.syntax})`)).join(", ") || "none";
  return known(setting, value);
}

/** What a client profile forbids, as words. */
function forbidden(profile) {
  const denied = Object.entries(profile).filter(([name, value]) => name.startsWith("allow_") && value === false);
  return denied.map(([name]) => words(name.slice("allow_".length, -"_enabled".length))).join(", ") || "–";
}

function ruleWords(profile, rule) {
  const exceptions = profile[`${rule}_exceptions`].length;
  return `${profile[`${rule}_default_action`]}${exceptions ? `, ${counted(exceptions, "exception")}` : ""}`;
}

function capital(text) {
  return text[0].toUpperCase() + text.slice(1);
}
