// The two sites of this broker, on the page of its replicas: which of them is active, and what the other lacks.

import { get, post } from "../api/admin.js";
import { actionButton } from "../widgets/access.js";
import { ask, attempt, notice } from "../widgets/dialogs.js";
import { h, setText } from "../widgets/elements.js";
import { count, counted, size } from "../widgets/words.js";

const REFUSED = 409; // the broker has one site

/** How far the standby site is, in words. */
function lagWords(sites) {
  if (sites.lag_messages === null) return "How far the standby site is, is not known";
  if (sites.lag_messages === 0) return "The standby site has the whole log";
  const age = sites.lag_seconds === null ? "" : `, the oldest from ${count(sites.lag_seconds)} s ago`;
  return `The standby site lacks ${counted(sites.lag_messages, "message")}, about ${size(sites.lag_bytes)}${age}`;
}

/**
 * Return a section that stays hidden while the broker has one site: `{element, refresh}`. `refresh` returns what the gateway
 * says of the sites; null: there is one.
 */
export function sitesSection() {
  const about = h("p", { class: "quiet" });
  const wrong = h("p", { class: "wrong", hidden: true });
  const surplus = h("p", { hidden: true });
  let shown = null;
  const promotes = actionButton("Promote this site", () => attempt(() => promote(shown)), { level: "admin" });
  const demotes = actionButton("Demote this site", () => attempt(() => demote(shown)), { level: "admin" });
  const tools = h("div", { class: "bar-of-tools" }, promotes, demotes);
  const element = h("section", { hidden: true }, h("h2", {}, "Sites"), about, wrong, surplus, tools);
  let hasOne = false;

  async function refresh() {
    if (hasOne) return null;
    try {
      shown = await get("replication");
    } catch (problem) {
      if (problem.status !== REFUSED) throw problem;
      hasOne = true;
      return null;
    }
    element.hidden = false;
    const mate = shown.mate_role ? `site ${shown.mate} is ${shown.mate_role}, with epoch ${shown.mate_epoch}` : `site ${shown.mate} does not answer`;
    setText(about, `This is site ${shown.site}, which is ${shown.role}, with epoch ${shown.epoch}; ${mate}. ${lagWords(shown)}.`);
    wrong.hidden = shown.problem === "";
    setText(wrong, `Replication to the other site has a problem: ${shown.problem}`);
    surplus.hidden = shown.surplus.length === 0;
    setText(surplus, `Kept aside, what this site alone had when the other one was promoted: ${shown.surplus.join(", ")}`);
    promotes.hidden = shown.role !== "standby";
    demotes.hidden = shown.role !== "active";
    return shown;
  }

  return { element, refresh };
}

function promote(sites) {
  const isWhole = sites.ends_with_handover;
  return ask({
    title: `Promote ${sites.site}`,
    text: isWhole
      ? `${sites.mate} has given the broker up, and its whole log is here: nothing is lost.`
      : `${sites.mate} has not given the broker up. What of its log is not here is lost for clients: promote this site only if ${sites.mate} serves nobody any more.`,
    confirm: isWhole ? "Promote" : "Promote, and accept the loss",
    dangerous: !isWhole,
    level: "admin",
    action: async () => {
      await post(`replication/promote?accept_loss=${isWhole ? 0 : 1}`);
      notice(`${sites.site} is promoted`);
    },
  });
}

function demote(sites) {
  return ask({
    title: `Demote ${sites.site}`,
    text: `The owner disconnects its clients and stops, and gives the broker up to ${sites.mate}. Nobody serves until ${sites.mate} is promoted.`,
    confirm: "Demote",
    dangerous: true,
    level: "admin",
    action: async () => {
      await post("replication/demote");
      notice(`${sites.site} gives the broker up to ${sites.mate}`);
    },
  });
}
