// The replicas of this broker: which of them owns it, how far the others are, and a handover.

import { get, post } from "../api/admin.js";
import { actionButton, refusal } from "../widgets/access.js";
import { ask, attempt, notice } from "../widgets/dialogs.js";
import { h, setText } from "../widgets/elements.js";
import { LiveTable } from "../widgets/table.js";
import { count, size } from "../widgets/words.js";
import { sitesSection } from "./sites.js";

export const REPLICAS = "replicas";
export const ROLE_CHANGED = "replica-role-changed"; // event of the window: this replica has become the owner, or a standby

const adminUrl = (replica) => (replica.endpoints.find(([name]) => name.startsWith("admin")) ?? ["", ""])[1];

/** How far a replica is behind the log; one that is away does not say. */
const behind = (words, number) => (replica) => (replica.role === "away" ? "–" : words(replica[number]));

/** The admin port of a replica, with a link to its console. */
function adminLink(replica) {
  const url = adminUrl(replica);
  return /^https?:/.test(url) ? h("a", { href: `${url}/console/`, tabindex: -1 }, url) : url || "–";
}

/** What a replica does; wrong if it does not do what it is there for. */
function state(replica) {
  const isWrong = replica.problem !== "" || replica.role === "away";
  return isWrong ? h("span", { class: "wrong" }, stateWords(replica)) : stateWords(replica);
}

/** Return whether a replica does what it is there for, or why not. */
function stateWords(replica) {
  if (replica.role === "owner") return replica.problem || "serves clients";
  if (replica.caught_up && !replica.problem) return "could take over";
  return replica.problem || "reads the log";
}

export function open(place) {
  const about = h("p", { class: "quiet" });
  const standby = h("p", { hidden: true });
  const ownerless = h("p", { class: "wrong", role: "alert", hidden: true }, "No replica is known to own the broker: its clients wait until one takes over.");
  const wrong = h("p", { class: "wrong", hidden: true });
  const table = new LiveTable({
    label: "Replicas",
    columns: [
      { title: "Replica", value: (each) => each.name },
      { title: "Role", value: (each) => each.role },
      { title: "State", value: stateWords, cell: state, long: true },
      { title: "Messages behind", value: (each) => each.lag_messages, cell: behind(count, "lag_messages"), numeric: true },
      { title: "Bytes behind", value: (each) => each.lag_bytes, cell: behind(size, "lag_bytes"), numeric: true, wide: true },
      { title: "Release", value: (each) => each.release || "–", wide: true },
      { title: "Admin port", value: adminUrl, cell: adminLink, wide: true },
    ],
    key: (each) => each.name,
    sort: { column: 0, descending: false },
    empty: "No replica is known.",
  });
  let standbys = [];
  let role = null; // not read yet
  const press = () => attempt(() => handOver(standbys));
  const handsOver = actionButton("Hand over", press, { level: "admin" });
  const tools = h("div", { class: "bar-of-tools" }, handsOver);
  const sites = sitesSection();
  place.append(h("h1", {}, "Replicas"), about, standby, ownerless, wrong, tools, table.element, sites.element);

  async function refresh() {
    const [cluster, site] = await Promise.all([get("cluster"), sites.refresh()]);
    const isElsewhere = site !== null && site.role !== "active" && site.mate_role === "active"; // the other site serves
    standbys = cluster.replicas.filter((each) => each.role === "standby" && each.caught_up).map((each) => each.name);
    const why = refusal("admin") ?? (cluster.owner ? (standbys.length ? "" : "no standby could take over now") : "no replica of this site owns the broker");
    Object.assign(handsOver, { disabled: why !== "", title: why });
    const owner = cluster.owner ? `replica ${cluster.owner} owns it` : isElsewhere ? `site ${site.mate} serves it` : "no replica is known to own it";
    const log = `${size(cluster.log_bytes)} of ${size(cluster.log_bytes_max)}`;
    setText(about, `Broker ${cluster.broker}: ${owner}. This is replica ${cluster.replica}. The log has ${log}.`);
    about.title = cluster.owner ? `epoch ${cluster.epoch}: each owner has a higher one` : "";
    showStandby(cluster);
    ownerless.hidden = Boolean(cluster.owner) || isElsewhere;
    const ahead = Math.round(cluster.clock_ahead_ms / 1000);
    wrong.hidden = ahead === 0;
    setText(wrong, `The clock of this machine is ${Math.abs(ahead)} s ${ahead > 0 ? "ahead of" : "behind"} the log's time, which is used.`);
    table.show(cluster.replicas);
    if (role !== null && (role === "owner") !== (cluster.role === "owner")) window.dispatchEvent(new Event(ROLE_CHANGED));
    role = cluster.role;
  }

  /** Say where the other pages are, at a replica that is not the owner. */
  function showStandby({ role: here, owner, replicas }) {
    standby.hidden = here === "owner" || !owner;
    const link = adminLink(replicas.find((each) => each.name === owner) ?? { endpoints: [] });
    const parts = [h("span", {}, "This replica serves no clients. All other pages are at the owner: "), link, "."];
    if (!standby.hidden && standby.querySelector("a")?.href !== link.href) standby.replaceChildren(...parts);
  }

  return { refresh };
}

async function handOver(standbys) {
  return ask({
    title: "Hand over",
    text: "The owner disconnects its clients and stops. They connect again, to the replica that takes over.",
    confirm: "Hand over",
    fields: [{ name: "to", label: "To", choices: standbys }],
    action: async ({ to }) => {
      await post(`cluster/handover?to=${encodeURIComponent(to)}`);
      notice(`The broker is handed over to ${to}.`);
    },
  });
}
