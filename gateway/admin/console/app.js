// The console: which page is open, and one look at the gateway after the other for it. Pages are in pages/.

import { accountWords, learnAccess, seesNode } from "./access.js";
import { DEFAULT_VPN, chooseVpn, get, vpn } from "./admin.js";
import { notice } from "./dialogs.js";
import { h, setText } from "./elements.js";
import { listen, moveRow, showKeys, takeKeys } from "./keys.js";
import * as actors from "./pages/actors.js";
import * as clients from "./pages/clients.js";
import * as point from "./pages/delivery-point.js";
import * as points from "./pages/delivery-points.js";
import * as events from "./pages/events.js";
import * as explain from "./pages/explain.js";
import * as messages from "./pages/messages.js";
import * as overview from "./pages/overview.js";
import * as queue from "./pages/queue.js";
import * as queues from "./pages/queues.js";
import * as spool from "./pages/spool.js";
import * as templates from "./pages/templates.js";
import * as users from "./pages/users.js";

const LOOK_MS = 2_000;

const PAGES = [
  { path: "", title: "Overview", page: overview },
  { path: "queues", title: "Queues", page: queues },
  { path: "clients", title: "Clients", page: clients },
  { path: "actors", title: "Actors", page: actors, ofNode: true },
  { path: "explain", title: "Explain", page: explain },
  { path: "events", title: "Events", page: events, ofNode: true },
  { path: "users", title: "Users", page: users },
  { path: points.POINTS, title: "Delivery points", page: points },
  { path: "spool", title: "Spool", page: spool, ofNode: true },
];

const place = document.getElementById("page");
const state = document.getElementById("state");
const vpnChoice = document.getElementById("vpn");
let open = { refresh: async () => {} }; // of the open page: {refresh, keys, back}, the last two if it has any
let looking = null; // the page that a look is under way for
let paused = false;
let timer = 0;

/** Return a part of the address as it reads; as it stands where somebody typed a `%` that encodes nothing. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Read the address: `#/queues/orders%2Feu/messages` is the messages of the queue `orders/eu`. */
function target() {
  const parts = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decoded);
  if (parts[0] === "queues" && parts.length === 2) return { page: queue, parts, name: "queues" };
  if (parts[0] === "queues" && parts[2] === "messages") return { page: messages, parts, name: "queues" };
  if (parts[0] === "templates") return { page: templates, parts, name: "queues" };
  if (parts[0] === points.POINTS && parts.length === 2) return { page: point, parts, name: points.POINTS };
  const known = PAGES.find((each) => each.path === (parts[0] ?? "")) ?? PAGES[0];
  return { page: known.page, parts, name: known.path };
}

function turn() {
  const { page, parts, name } = target();
  place.replaceChildren();
  open = page.open(place, parts.slice(1));
  takeKeys(open.keys ?? []);
  for (const link of document.querySelectorAll("#pages a")) {
    if (link.dataset.path === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = [...parts.slice(1, 2), PAGES.find((each) => each.path === name)?.title, "Sluicegate"].filter(Boolean).join(" · ");
  window.scrollTo(0, 0);
  look();
}

/** Look once, and again after a while; not while nobody sees the page, nor while a look at it is under way. */
async function look() {
  if (looking === open) return;
  clearTimeout(timer);
  const looked = open;
  looking = looked;
  try {
    await looked.refresh();
    if (open === looked) tell(paused ? "paused" : "live", "");
  } catch (problem) {
    if (open === looked) tell(problem.status ? "refused" : "no answer", problem.message);
  }
  if (open !== looked) return; // that page has looks of its own
  looking = null;
  if (!paused && !document.hidden) timer = setTimeout(look, LOOK_MS);
}

function tell(word, why) {
  setText(state, why ? `${word}: ${why}` : word);
  state.className = why ? "wrong" : word;
}

function pause() {
  paused = !paused;
  if (paused) {
    clearTimeout(timer);
    tell("paused", "");
  } else {
    look();
  }
}

/** Show who is signed in, and the pages that are of use to them. */
async function showAccess() {
  try {
    await learnAccess();
  } catch (problem) {
    if (problem.status !== 404) throw problem;
    chooseVpn(DEFAULT_VPN); // the one that was chosen is gone
    await learnAccess();
  }
  const line = document.getElementById("account");
  setText(line, accountWords());
  line.hidden = !accountWords();
  for (const { path, ofNode } of PAGES) {
    document.querySelector(`#pages a[data-path="${path}"]`).hidden = Boolean(ofNode) && !seesNode();
  }
}

/** Offer the message VPNs, to who may see them all; others name theirs in the address, as `?vpn=NAME`. */
async function offerVpns() {
  if (!seesNode()) return;
  const { message_vpns: known } = await get("message-vpns");
  const names = known.map((each) => each.name);
  vpnChoice.replaceChildren(...names.map((name) => h("option", { value: name }, name)));
  vpnChoice.value = vpn();
  document.getElementById("vpn-choice").hidden = names.length < 2;
}

/** Learn what there is for whom, and open the page that the address names. */
async function begin() {
  try {
    await showAccess();
    await offerVpns();
  } catch (problem) {
    notice(problem.message, { wrong: true });
  }
  turn();
}

function focusFilter() {
  place.querySelector("input[type=search], input:not([type=checkbox])")?.focus();
}

/** Close what the page has open, else go one level up. */
function back() {
  if (open.back?.()) return;
  const { parts, name } = target();
  if (parts.length > 1) location.hash = `#/${parts.slice(0, -1).map(encodeURIComponent).join("/")}`;
  else location.hash = `#/${name}`;
}

document.getElementById("pages").append(
  ...PAGES.map(({ path, title }) => h("a", { href: `#/${path}`, "data-path": path }, title)),
);
document.getElementById("help").addEventListener("click", showKeys);
listen([
  { key: "?", meaning: "this list", press: showKeys },
  ...PAGES.map(({ path, title }, at) => ({ key: String(at + 1), meaning: title, press: () => (location.hash = `#/${path}`) })),
  { key: "j", meaning: "next row", press: () => moveRow(1) },
  { key: "k", meaning: "row before", press: () => moveRow(-1) },
  { key: "Enter", meaning: "open the row", press: () => document.activeElement?.click() },
  { key: "/", meaning: "filter", press: focusFilter },
  { key: "r", meaning: "look now", press: look },
  { key: "p", meaning: "pause, go on", press: pause },
  { key: "Escape", meaning: "back", press: back },
]);
window.addEventListener("hashchange", turn);
document.addEventListener("visibilitychange", () => document.hidden || paused || look());
vpnChoice.addEventListener("change", () => {
  chooseVpn(vpnChoice.value);
  const { parts, name } = target();
  if (parts.length > 1) history.replaceState(null, "", `#/${name}`);
  begin();
});
begin();
