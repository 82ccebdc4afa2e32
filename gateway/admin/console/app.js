// The console: navigation between pages, and the periodic refresh of the open page. The pages are in pages/.

import { DEFAULT_VPN, chooseVpn, get, latest, vpn } from "./api/admin.js";
import * as actors from "./pages/actors.js";
import * as messageVpn from "./pages/access/message-vpn.js";
import * as vpns from "./pages/access/message-vpns.js";
import * as profiles from "./pages/access/profiles.js";
import * as users from "./pages/access/users.js";
import * as bridge from "./pages/bridges/bridge.js";
import * as bridges from "./pages/bridges/bridges.js";
import * as client from "./pages/clients/client.js";
import * as clients from "./pages/clients/clients.js";
import * as listeners from "./pages/clients/listeners.js";
import * as retainedMessage from "./pages/clients/retained-message.js";
import * as retained from "./pages/clients/retained.js";
import * as session from "./pages/clients/session.js";
import * as sessions from "./pages/clients/sessions.js";
import * as subscriptions from "./pages/clients/subscriptions.js";
import * as definitions from "./pages/definitions.js";
import * as point from "./pages/delivery-point.js";
import * as points from "./pages/delivery-points.js";
import * as events from "./pages/events.js";
import * as explain from "./pages/explain.js";
import * as link from "./pages/network/link.js";
import * as network from "./pages/network/network.js";
import * as overview from "./pages/overview.js";
import * as publish from "./pages/publish.js";
import * as messages from "./pages/queues/messages.js";
import * as queue from "./pages/queues/queue.js";
import * as queues from "./pages/queues/queues.js";
import * as templates from "./pages/queues/templates.js";
import * as replicas from "./pages/replicas.js";
import * as spool from "./pages/spool.js";
import { accountWords, learnAccess, seesNode } from "./widgets/access.js";
import { attempt, notice } from "./widgets/dialogs.js";
import { h, setText } from "./widgets/elements.js";
import { listen, moveRow, openRow, showKeys, takeKeys } from "./widgets/keys.js";
import { closeMenu, prepareMenu } from "./widgets/menu.js";

const REFRESH_MS = 2_000;
const DIGITS = 9; // keys that open pages

// The pages in the order of the list. `takesMore`: the address may go on behind the path.
const GROUPS = [
  {
    title: "",
    pages: [
      { path: "", title: "Overview", page: overview },
      { path: "queues", title: "Queues", page: queues },
      { path: clients.CLIENTS, title: "Clients", page: clients },
      { path: "events", title: "Events", page: events, ofNode: true, takesMore: true },
    ],
  },
  {
    title: "Topics and connections",
    pages: [
      { path: "publish", title: "Publish & watch", page: publish },
      { path: "subscriptions", title: "Subscriptions", page: subscriptions },
      { path: retained.RETAINED, title: "Retained", page: retained },
      { path: sessions.SESSIONS, title: "MQTT sessions", page: sessions },
      { path: listeners.LISTENERS, title: "Listeners", page: listeners, ofNode: true },
    ],
  },
  {
    title: "Brokers",
    pages: [
      { path: bridges.BRIDGES, title: "Bridges", page: bridges },
      { path: points.POINTS, title: "Delivery points", page: points },
      { path: network.NETWORK, title: "Network", page: network, ofNode: true },
      { path: replicas.REPLICAS, title: "Replicas", page: replicas, ofNode: true },
      { path: "definitions", title: "Definitions", page: definitions },
    ],
  },
  {
    title: "Access",
    pages: [
      { path: "users", title: "Users", page: users },
      { path: profiles.PROFILES, title: "Profiles", page: profiles },
      { path: messageVpn.MESSAGE_VPNS, title: "Message VPNs", page: vpns, ofNode: true },
    ],
  },
  {
    title: "Diagnostics",
    pages: [
      { path: "explain", title: "Explain", page: explain, takesMore: true },
      { path: "actors", title: "Actors", page: actors, ofNode: true },
      { path: "spool", title: "Spool", page: spool, ofNode: true },
    ],
  },
];
const PAGES = GROUPS.flatMap((group) => group.pages);

/** The pages of one object each, by the page that lists them. */
const DETAILS = {
  queues: queue,
  [clients.CLIENTS]: client,
  [sessions.SESSIONS]: session,
  [retained.RETAINED]: retainedMessage,
  [points.POINTS]: point,
  [bridges.BRIDGES]: bridge,
  [network.NETWORK]: link,
  [messageVpn.MESSAGE_VPNS]: messageVpn,
};

const head = document.getElementById("head"); // of the page: its filter takes what is typed before the first answer
const place = document.getElementById("contents"); // while disabled, so are all buttons and fields in it
const state = document.getElementById("state");
const vpnChoice = document.getElementById("vpn");
let open = { refresh: async () => {} }; // the open page: {refresh, keys, back, close}; all but refresh are optional
let refreshing = null; // the page that is being refreshed
let hasReplicas = false; // the owner of the broker may become a standby, and a standby the owner
let begun = false; // the access levels are known; until then no page opens, which would be replaced
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
  if (parts[0] === "queues" && parts[2] === "messages") return { page: messages, parts, name: "queues" };
  if (parts.length === 1 && parts[0] === "templates") return { page: templates, parts, name: "queues" };
  if (parts.length === 2 && Object.hasOwn(DETAILS, parts[0])) return { page: DETAILS[parts[0]], parts, name: parts[0] };
  const known = PAGES.find((each) => each.path === (parts[0] ?? ""));
  if (known === undefined || (parts.length > 1 && !known.takesMore)) return { page: { open: openNothing }, parts, name: null };
  return { page: known.page, parts, name: known.path };
}

/** The page of an address that has none. */
function openNothing() {
  missing(`There is no page at ${location.hash}.`);
  return { refresh: async () => {} };
}

/** Say that what the address names does not exist, in place of the page and its keys. */
function missing(text) {
  place.disabled = false;
  takeKeys([]);
  head.replaceChildren();
  place.replaceChildren(h("h1", {}, "Not found"), h("p", {}, text), h("p", {}, h("a", { href: "#/" }, "Overview")));
}

function turn() {
  const { page, parts, name } = target();
  open.close?.();
  head.replaceChildren();
  place.replaceChildren();
  open = page.open(place, parts.slice(1), head);
  place.disabled = true; // until the first answer: before it, nobody knows what there is to act on
  takeKeys([]);
  for (const link of document.querySelectorAll("#pages a[data-path]")) {
    if (link.dataset.path === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = [...parts.slice(1, 2), PAGES.find((each) => each.path === name)?.title, "Sluicegate"].filter(Boolean).join(" · ");
  window.scrollTo(0, 0);
  refresh();
}

/** Let the operator act on what the open page shows. */
function enable() {
  if (!place.disabled) return;
  place.disabled = false;
  takeKeys(open.keys ?? []);
}

/** Refresh the open page now and then periodically, except while it is hidden or being refreshed. */
async function refresh() {
  if (refreshing === open) return;
  clearTimeout(timer);
  const page = open;
  refreshing = page;
  try {
    await page.refresh();
    if (open === page) {
      enable();
      showState(paused ? "paused" : "live", "");
    }
  } catch (problem) {
    if (open !== page) return;
    if (problem.status === 404 && target().parts.length > 1) {
      missing(problem.message); // without buttons that would act on it
      open = { refresh: async () => {} };
      showState(paused ? "paused" : "live", "");
      return;
    }
    if (problem.status && target().parts.length < 2) enable(); // a list may be refused, and a new object allowed
    if (problem.status && hasReplicas) await learnRole();
    showState(problem.status ? "refused" : "no answer", problem.message);
  }
  if (open !== page) return; // the other page has its own refresh
  refreshing = null;
  if (!paused && !document.hidden) timer = setTimeout(refresh, REFRESH_MS);
}

function showState(word, why) {
  setText(state, why ? `${word}: ${why}` : word);
  state.title = why; // which may be cut off
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
  const cluster = seesNode() ? await latest("cluster") : null;
  hasReplicas = cluster !== null;
  const isStandby = hasReplicas && cluster.role !== "owner";
  for (const { path, ofNode } of PAGES) {
    const isOne = path === replicas.REPLICAS;
    const hidden = (Boolean(ofNode) && !seesNode()) || (isOne ? cluster === null : isStandby);
    document.querySelector(`#pages a[data-path="${path}"]`).hidden = hidden;
  }
  for (const group of document.querySelectorAll("#pages .group")) group.hidden = !group.querySelector("a:not([hidden])");
  if (isStandby) location.hash = `#/${replicas.REPLICAS}`;
  return isStandby;
}

/** Show the pages of what this replica has become: a standby has one. */
async function learnRole() {
  try {
    if (!(await showAccess())) await offerVpns();
  } catch {
    // the state says it
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
    const isStandby = await showAccess();
    if (!isStandby) await offerVpns();
  } catch (problem) {
    notice(problem.message, { wrong: true });
  }
  begun = true;
  turn();
}

function focusFilter() {
  document.querySelector("#page :is(input[type=search], input:not([type=checkbox]))")?.focus();
}

/** Close the list of pages or the open details of the page, or go one level up. */
function back() {
  if (closeMenu()) return;
  if (open.back?.()) return;
  const { parts, name } = target();
  if (parts.length > 1) location.hash = `#/${parts.slice(0, -1).map(encodeURIComponent).join("/")}`;
  else location.hash = `#/${name ?? ""}`;
}

document.getElementById("pages").append(
  ...GROUPS.map(({ title, pages }) =>
    h(
      "div",
      { class: "group" },
      title ? h("h2", {}, title) : null,
      pages.map((each) => h("a", { href: `#/${each.path}`, "data-path": each.path }, each.title)),
    ),
  ),
  h("div", { class: "group" }, h("h2", {}, "Admin API"), h("a", { href: "../docs" }, "Operations"), h("a", { href: "../metrics" }, "Metrics")),
);
prepareMenu();
document.getElementById("help").addEventListener("click", showKeys);
listen([
  { key: "?", meaning: "show this list", press: showKeys },
  ...PAGES.slice(0, DIGITS).map(({ path, title }, at) => ({ key: String(at + 1), meaning: title, press: () => (location.hash = `#/${path}`) })),
  { key: "j", meaning: "next row", press: () => moveRow(1) },
  { key: "k", meaning: "previous row", press: () => moveRow(-1) },
  { key: "Enter", meaning: "open the row", press: openRow, ofRows: true },
  { key: "/", meaning: "filter", press: focusFilter },
  { key: "r", meaning: "refresh now", press: refresh },
  { key: "p", meaning: "pause or resume", press: pause },
  { key: "Escape", meaning: "back", press: back },
]);
window.addEventListener("hashchange", () => begun && turn());
window.addEventListener(replicas.ROLE_CHANGED, learnRole);
window.addEventListener(messageVpn.CHANGED, () => attempt(offerVpns));
document.addEventListener("visibilitychange", () => document.hidden || paused || refresh());
vpnChoice.addEventListener("change", () => {
  chooseVpn(vpnChoice.value);
  const { parts, name } = target();
  if (parts.length > 1) history.replaceState(null, "", `#/${name}`);
  begin();
});
begin();
