// The console: navigation between pages, and the periodic refresh of the open page. The pages are in pages/.

import { DEFAULT_VPN, chooseVpn, get, vpn } from "./api/admin.js";
import * as actors from "./pages/actors.js";
import * as clients from "./pages/clients.js";
import * as bridge from "./pages/bridges/bridge.js";
import * as bridges from "./pages/bridges/bridges.js";
import * as point from "./pages/delivery-point.js";
import * as points from "./pages/delivery-points.js";
import * as events from "./pages/events.js";
import * as explain from "./pages/explain.js";
import * as vpns from "./pages/message-vpns.js";
import * as link from "./pages/network/link.js";
import * as network from "./pages/network/network.js";
import * as overview from "./pages/overview.js";
import * as messages from "./pages/queues/messages.js";
import * as queue from "./pages/queues/queue.js";
import * as queues from "./pages/queues/queues.js";
import * as templates from "./pages/queues/templates.js";
import * as spool from "./pages/spool.js";
import * as users from "./pages/users.js";
import { accountWords, learnAccess, seesNode } from "./widgets/access.js";
import { attempt, notice } from "./widgets/dialogs.js";
import { h, setText } from "./widgets/elements.js";
import { listen, moveRow, showKeys, takeKeys } from "./widgets/keys.js";

const REFRESH_MS = 2_000;
const DIGITS = 9; // keys that open pages

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
  { path: bridges.BRIDGES, title: "Bridges", page: bridges },
  { path: network.NETWORK, title: "Network", page: network, ofNode: true },
  { path: vpns.MESSAGE_VPNS, title: "Message VPNs", page: vpns, ofNode: true },
];

const place = document.getElementById("page");
const state = document.getElementById("state");
const vpnChoice = document.getElementById("vpn");
let open = { refresh: async () => {} }; // the open page: {refresh, keys, back}; keys and back are optional
let refreshing = null; // the page that is being refreshed
let paused = false;
let timer = 0;

/** Decode a part of the address; return it unchanged if it is not valid percent-encoding. */
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
  if (parts[0] === bridges.BRIDGES && parts.length === 2) return { page: bridge, parts, name: bridges.BRIDGES };
  if (parts[0] === network.NETWORK && parts.length === 2) return { page: link, parts, name: network.NETWORK };
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
  refresh();
}

/** Refresh the open page now and then periodically, except while it is hidden or being refreshed. */
async function refresh() {
  if (refreshing === open) return;
  clearTimeout(timer);
  const page = open;
  refreshing = page;
  try {
    await page.refresh();
    if (open === page) showState(paused ? "paused" : "live", "");
  } catch (problem) {
    if (open === page) showState(problem.status ? "refused" : "no answer", problem.message);
  }
  if (open !== page) return; // the other page has its own refresh
  refreshing = null;
  if (!paused && !document.hidden) timer = setTimeout(refresh, REFRESH_MS);
}

function showState(word, why) {
  setText(state, why ? `${word}: ${why}` : word);
  state.className = why ? "wrong" : word;
}

function pause() {
  paused = !paused;
  if (paused) {
    clearTimeout(timer);
    showState("paused", "");
  } else {
    refresh();
  }
}

/** Show the account, and the pages that it may open. */
async function showAccess() {
  try {
    await learnAccess();
  } catch (problem) {
    if (problem.status !== 404) throw problem;
    chooseVpn(DEFAULT_VPN); // the chosen one does not exist any more
    await learnAccess();
  }
  const line = document.getElementById("account");
  setText(line, accountWords());
  line.hidden = !accountWords();
  for (const { path, ofNode } of PAGES) {
    document.querySelector(`#pages a[data-path="${path}"]`).hidden = Boolean(ofNode) && !seesNode();
  }
}

/** Offer the message VPNs if the account may see them all; otherwise the address names one, as `?vpn=NAME`. */
async function offerVpns() {
  if (!seesNode()) return;
  const { message_vpns: known } = await get("message-vpns");
  const names = known.map((each) => each.name);
  if (!names.includes(vpn())) {
    chooseVpn(DEFAULT_VPN); // the chosen one was deleted
    await learnAccess();
  }
  vpnChoice.replaceChildren(...names.map((name) => h("option", { value: name }, name)));
  vpnChoice.value = vpn();
  document.getElementById("vpn-choice").hidden = names.length < 2;
}

/** Read the access levels, and open the page that the address names. */
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

/** Close the open details of the page, or go one level up. */
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
  { key: "?", meaning: "show this list", press: showKeys },
  ...PAGES.slice(0, DIGITS).map(({ path, title }, at) => ({ key: String(at + 1), meaning: title, press: () => (location.hash = `#/${path}`) })),
  { key: "j", meaning: "next row", press: () => moveRow(1) },
  { key: "k", meaning: "previous row", press: () => moveRow(-1) },
  { key: "Enter", meaning: "open the row", press: () => document.activeElement?.click() },
  { key: "/", meaning: "filter", press: focusFilter },
  { key: "r", meaning: "refresh now", press: refresh },
  { key: "p", meaning: "pause or resume", press: pause },
  { key: "Escape", meaning: "back", press: back },
]);
window.addEventListener("hashchange", turn);
window.addEventListener(vpns.CHANGED, () => attempt(offerVpns));
document.addEventListener("visibilitychange", () => document.hidden || paused || refresh());
vpnChoice.addEventListener("change", () => {
  chooseVpn(vpnChoice.value);
  const { parts, name } = target();
  if (parts.length > 1) history.replaceState(null, "", `#/${name}`);
  begin();
});
begin();
