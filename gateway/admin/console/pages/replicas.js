// The replicas of this broker: which of them owns it, how far the others are, and a handover.

import { get, post } from "../api/admin.js";
import { actionButton, refusal } from "../widgets/access.js";
import { ask, attempt, notice } from "../widgets/dialogs.js";
import { h, setText } from "../widgets/elements.js";
import { LiveTable } from "../widgets/table.js";
import { count, size } from "../widgets/words.js";
import { sitesSection } from "./sites.js";

export const REPLICAS = "replicas";

const adminUrl = (replica) => (replica.endpoints.find(([name]) => name.startsWith("admin")) ?? ["", ""])[1];

/** How far a replica is behind the log; one that is away does not say. */
const behind = (words, number) => (replica) => (replica.role === "away" ? "–" : words(replica[number]));

/** Return whether a replica does what it is there for, or why not. */
function stateWords(replica) {
  if (replica.role === "owner") return replica.problem || "serves clients";
  if (replica.caught_up && !replica.problem) return "could take over";
  return replica.problem || "reads the log";
}

export function open(place) {
  const about = h("p", { class: "quiet" });
  const wrong = h("p", { class: "wrong", hidden: true });
  const table = new LiveTable({
    label: "Replicas",
    columns: [
      { title: "Replica", value: (each) => each.name },
      { title: "Role", value: (each) => each.role },
      { title: "State", value: stateWords, long: true },
      { title: "Messages behind", value: (each) => each.lag_messages, cell: behind(count, "lag_messages"), numeric: true },
      { title: "Bytes behind", value: (each) => each.lag_bytes, cell: behind(size, "lag_bytes"), numeric: true, wide: true },
      { title: "Release", value: (each) => each.release || "–", wide: true },
      { title: "Admin port", value: (each) => adminUrl(each) || "–", wide: true },
    ],
    key: (each) => each.name,
    sort: { column: 0, descending: false },
    empty: "No replica is known.",
  });
  let standbys = [];
  const press = () => attempt(() => handOver(standbys));
  const handsOver = actionButton("Hand over", press, { level: "admin" });
  const tools = h("div", { class: "bar-of-tools" }, handsOver);
  const sites = sitesSection();
  place.append(h("h1", {}, "Replicas"), about, wrong, tools, table.element, sites.element);

  async function refresh() {
    const cluster = await get("cluster");
    standbys = cluster.replicas.filter((each) => each.role === "standby" && each.caught_up).map((each) => each.name);
    const why = refusal("admin") ?? (standbys.length ? "" : "no standby could take over now");
    Object.assign(handsOver, { disabled: why !== "", title: why });
    const owner = cluster.owner ? `replica ${cluster.owner} owns it, with epoch ${cluster.epoch}` : "no replica is known to own it";
    const log = `${size(cluster.log_bytes)} of ${size(cluster.log_bytes_max)}`;
    setText(about, `Broker ${cluster.broker}: ${owner}. This is replica ${cluster.replica}. The log has ${log}.`);
    const ahead = Math.round(cluster.clock_ahead_ms / 1000);
    wrong.hidden = ahead === 0;
    setText(wrong, `The clock of this machine is ${Math.abs(ahead)} s ${ahead > 0 ? "ahead of" : "behind"} the log's time, which is used.`);
    table.show(cluster.replicas);
    await sites.refresh();
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
