// The spool on disk, and the backups that are made of it. How full it is stands on the overview.

import { deedButton } from "../access.js";
import { get, latest, post, remove } from "../admin.js";
import { bar } from "../charts.js";
import { ask, attempt, notice } from "../dialogs.js";
import { facts, h } from "../elements.js";
import { count, moment, size } from "../words.js";

const LEVEL = "admin"; // it writes a copy of everything onto the node's disk

export function open(place) {
  const about = h("div");
  const backup = h("div");
  const begins = deedButton("New backup", begin, { level: LEVEL });
  const cancels = deedButton("Cancel", () => attempt(cancel), { level: LEVEL });
  place.append(
    h("h1", {}, "Spool"),
    about,
    h("section", {}, h("h2", {}, "Latest backup"), h("div", { class: "bar-of-tools" }, begins, cancels), backup),
  );

  async function refresh() {
    const [use, made] = await Promise.all([get("spool"), latest("backup")]);
    about.replaceChildren(facts(contents(use), { many: true }));
    backup.replaceChildren(made ? facts(progress(made)) : h("p", { class: "quiet" }, "None since the node began."));
    cancels.hidden = made?.state !== "running";
  }

  async function cancel() {
    await remove("backup");
    await refresh();
  }

  async function begin() {
    const begun = await ask({
      title: "New backup",
      text: "The node copies its spool, as it is now, into a folder of its backup.path.",
      confirm: "Begin",
      fields: [{ name: "name", label: "Name", hint: "empty: the time, in UTC" }],
      level: LEVEL,
      deed: ({ name }) => post("backup", name ? { name } : {}),
    });
    if (!begun) return;
    notice("The backup has begun");
    await attempt(refresh);
  }

  return { refresh, keys: [{ key: "b", meaning: "new backup", press: begin }] };
}

function contents(use) {
  return [
    ["incarnation", use.incarnation],
    ["data file", size(use.file_bytes)],
    ["free on the disk", size(use.disk_free_bytes)],
    ["journal records", count(use.journal_records)],
    ["pages", count(use.pages)],
    ["open transactions", count(use.transactions_open)],
    ["staged by them", size(use.staged_bytes)],
    ["damaged records kept aside", count(use.quarantined)],
  ];
}

function progress(made) {
  const written = made.state === "done" ? size(made.written_bytes) : bar(made.written_bytes, made.expected_bytes, `${size(made.written_bytes)} of about ${size(made.expected_bytes)}`);
  const lines = [
    ["name", made.name],
    ["folder", made.folder],
    ["state", made.failure ? `${made.state}: ${made.failure}` : made.state],
    ["written", written],
    ["begun", moment(made.started_ms)],
    ["ended", made.ended_ms && moment(made.ended_ms)],
  ];
  return lines.filter(([, value]) => value);
}
