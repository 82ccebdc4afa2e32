// The spool on disk, and its backups. The overview shows its usage.

import { get, latest, post, remove } from "../api/admin.js";
import { actionButton } from "../widgets/access.js";
import { bar } from "../widgets/charts.js";
import { ask, attempt, notice } from "../widgets/dialogs.js";
import { facts, h } from "../widgets/elements.js";
import { count, moment, size } from "../widgets/words.js";

const LEVEL = "admin"; // a backup copies all data to the node's disk

export function open(place) {
  const about = h("div");
  const backup = h("div");
  const begins = actionButton("New backup", begin, { level: LEVEL });
  const cancels = actionButton("Cancel", () => attempt(cancel), { level: LEVEL });
  place.append(
    h("h1", {}, "Spool"),
    about,
    h("section", {}, h("h2", {}, "Latest backup"), h("div", { class: "bar-of-tools" }, begins, cancels), backup),
  );

  async function refresh() {
    const [use, made] = await Promise.all([get("spool"), latest("backup")]);
    about.replaceChildren(facts(contents(use), { many: true }));
    backup.replaceChildren(made ? facts(progress(made)) : h("p", { class: "quiet" }, "No backup since the node started."));
    cancels.hidden = made?.state !== "running";
  }

  async function cancel() {
    await remove("backup");
    await refresh();
  }

  async function begin() {
    const begun = await ask({
      title: "New backup",
      text: "The node copies its current spool into a folder below its backup.path.",
      confirm: "Start",
      fields: [{ name: "name", label: "Name", hint: "empty: the time, in UTC" }],
      level: LEVEL,
      action: ({ name }) => post("backup", name ? { name } : {}),
    });
    if (!begun) return;
    notice("The backup has started");
    await attempt(refresh);
  }

  return { refresh, keys: [{ key: "b", meaning: "new backup", press: begin }] };
}

function contents(use) {
  return [
    ["incarnation", use.incarnation],
    ["data file and log", size(use.file_bytes)],
    ["free disk space", size(use.disk_free_bytes)],
    ["log", size(use.log_bytes)],
    ["records in the log", count(use.journal_records)],
    ["pages", count(use.pages)],
    ["open transactions", count(use.transactions_open)],
    ["staged by transactions", size(use.staged_bytes)],
    ["quarantined records", count(use.quarantined)],
  ];
}

function progress(made) {
  const written = made.state === "done" ? size(made.written_bytes) : bar(made.written_bytes, made.expected_bytes, `${size(made.written_bytes)} of about ${size(made.expected_bytes)}`);
  const lines = [
    ["name", made.name],
    ["folder", made.folder],
    ["state", made.failure ? `${made.state}: ${made.failure}` : made.state],
    ["written", written],
    ["started", moment(made.started_ms)],
    ["ended", made.ended_ms && moment(made.ended_ms)],
  ];
  return lines.filter(([, value]) => value);
}
