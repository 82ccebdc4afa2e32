// The account of the operator, and its access levels. The gateway enforces them; the console only disables buttons.

import { get } from "../api/admin.js";
import { h } from "./elements.js";

const LEVELS = ["none", "read-only", "read-write", "admin"]; // each level includes the ones before it

let account = { name: "", global_access_level: "admin", msg_vpn_access_level: "admin" }; // until it is known

const reaches = (has, wanted) => LEVELS.indexOf(has) >= LEVELS.indexOf(wanted);

/** Read the account of this browser, with its access level in the message VPN that is shown. */
export async function learnAccess() {
  account = await get("account");
}

/** The name of the account; empty where the gateway has no accounts. */
export function accountName() {
  return account.name;
}

/** The account as a text; empty where the gateway has no accounts. */
export function accountWords() {
  return account.name && `${account.name}, ${account.msg_vpn_access_level}`;
}

/** Whether the account may see the node, and not only a message VPN. */
export function seesNode() {
  return reaches(account.global_access_level, "read-only");
}

/**
 * Return why this account lacks a level, or null if it has it. `admin` is a level in the node, and so are the others with
 * `ofNode`; without, they are levels in the message VPN that is shown.
 */
export function refusal(level = "read-write", ofNode = level === "admin") {
  const has = ofNode ? account.global_access_level : account.msg_vpn_access_level;
  return reaches(has, level) ? null : `this needs the access level ${level}; ${account.name} has ${has}`;
}

/** Return a button for an action that changes something; it is disabled if the account lacks the level. */
export function actionButton(label, press, { kind = null, level, ofNode } = {}) {
  const why = refusal(level, ofNode);
  return h("button", { type: "button", class: kind, onclick: press, disabled: why !== null, title: why }, label);
}
