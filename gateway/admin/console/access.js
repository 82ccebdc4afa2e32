// Who looks, and how far the gateway lets them go: it decides, and here is only shown what it would refuse.

import { get } from "./admin.js";
import { h } from "./elements.js";

const LEVELS = ["none", "read-only", "read-write", "admin"]; // each may what those before it may

let account = { name: "", global_access_level: "admin", msg_vpn_access_level: "admin" }; // until it is known

const reaches = (has, wanted) => LEVELS.indexOf(has) >= LEVELS.indexOf(wanted);

/** Ask who this browser is signed in as, and what that is worth in the message VPN that is shown. */
export async function learnAccess() {
  account = await get("account");
}

/** The account in words; nothing where the gateway has none. */
export function accountWords() {
  return account.name && `${account.name}, ${account.msg_vpn_access_level}`;
}

/** Whether what there is once for the node may be looked at, and not only a message VPN. */
export function seesNode() {
  return reaches(account.global_access_level, "read-only");
}

/**
 * Say why this account may not do what takes a level, which is one in the message VPN that is shown, and for `admin`
 * the one in the node; null where it may.
 */
export function refusal(level = "read-write") {
  const has = level === "admin" ? account.global_access_level : account.msg_vpn_access_level;
  return reaches(has, level) ? null : `this takes the access level ${level}, and ${account.name} has ${has}`;
}

/** Return a button for what changes something: it is off for who may not. */
export function deedButton(label, press, { kind = null, level } = {}) {
  const why = refusal(level);
  return h("button", { type: "button", class: kind, onclick: press, disabled: why !== null, title: why }, label);
}
