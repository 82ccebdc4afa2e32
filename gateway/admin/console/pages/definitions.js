// Definitions: what operators created, as a document. Download it; choose one, see what it would change, and apply it.

import { download, upload, vpn } from "../api/admin.js";
import { actionButton, refusal, seesNode } from "../widgets/access.js";
import { ask, attempt, notice, show } from "../widgets/dialogs.js";
import { facts, h, setText } from "../widgets/elements.js";
import { LiveTable } from "../widgets/table.js";
import { counted, words } from "../widgets/words.js";

const DEFINITIONS = "definitions";
const FILE_MS = 60_000; // for which a downloaded document is kept for the browser to save
const MADE = ["created", "changed", "deleted"];
const MARKS = { created: "+", changed: "~", deleted: "−", refused: "!", pending: "…" };
const CLASSES = { created: "good", deleted: "wrong", refused: "wrong" };
const LABELS = { settings: "message VPN", acl_profiles: "ACL profile", rest_delivery_points: "REST delivery point" };
const MAY_FAIL = "The gateway may still refuse a change when it is made.";

export function open(place) {
  const exporting = exportCard();
  const applying = applyCard();
  place.append(
    h("h1", {}, "Definitions"),
    h("p", { class: "quiet" }, "Queues, templates, profiles, users, delivery points and bridges that operators created, as one document. Objects of the configuration file are not in it."),
    exporting.element,
    applying.element,
  );
  return {
    refresh: async () => {},
    keys: [
      { key: "d", meaning: "download the document", press: exporting.save },
      { key: "v", meaning: "show what a document would change", press: applying.preview },
    ],
  };
}

function field(label, input, hint = "") {
  return h("label", { class: "field" }, label, input, hint ? h("small", {}, hint) : null);
}

function checkbox(name, label, { hint = "", why = null } = {}) {
  const input = h("input", { type: "checkbox", name, disabled: why !== null });
  return { input, element: h("div", {}, h("label", { class: "check", title: why }, input, ` ${label}`), why || hint ? h("p", { class: "hint" }, why ?? hint) : null) };
}

// --- export ---

function exportCard() {
  const shown = h("option", { value: vpn() }, `only ${vpn()}`);
  const which = h("select", {}, seesNode() ? h("option", { value: "" }, "all") : null, shown);
  const format = h("select", {}, h("option", { value: "yaml" }, "YAML"), h("option", { value: "json" }, "JSON"));
  const hashes = checkbox("with_password_hashes", "With password hashes", {
    hint: "Clients keep their passwords where the document is applied. Whoever has it can try passwords against them.",
    why: refusal("admin"),
  });

  function save() {
    attempt(async () => {
      const query = { vpn: which.value, format: format.value, with_password_hashes: hashes.input.checked ? "true" : "" };
      const text = await download(DEFINITIONS, query);
      const file = URL.createObjectURL(new Blob([text]));
      h("a", { href: file, download: `definitions.${format.value}` }).click();
      setTimeout(() => URL.revokeObjectURL(file), FILE_MS);
    });
  }

  const button = h("button", { type: "button", onclick: save }, "Download");
  const element = h(
    "section",
    { class: "card", "aria-label": "Export" },
    h("h2", {}, "Export"),
    h("div", { class: "fields" }, field("Message VPNs", which), field("Format", format)),
    hashes.element,
    h("div", { class: "bar-of-tools" }, button),
  );
  return { element, save };
}

// --- apply ---

function applyCard() {
  const file = h("input", { type: "file", accept: ".yaml,.yml,.json", onchange: () => attempt(read) });
  const text = h("textarea", { rows: 10, spellcheck: "false", placeholder: "version: 1\nmessage_vpns:\n  default:\n    queues:\n      - name: orders", oninput: forget });
  const prune = checkbox("prune", "Delete what the document does not list", { hint: "Of the kinds that it lists. Queues are deleted with their messages." });
  prune.input.addEventListener("change", forget);
  const look = actionButton("Show changes", () => preview(), { kind: "primary" });
  const apply = actionButton("Apply", () => confirm());
  const result = new Result();
  let plan = null; // of the document as it is now
  apply.disabled = true;

  /** What is known of the document does not hold for another one. */
  function forget() {
    plan = null;
    apply.disabled = true;
    result.clear();
  }

  async function read() {
    const [chosen] = file.files;
    if (!chosen) return;
    forget();
    text.value = await chosen.text();
  }

  function send(dryRun) {
    const query = { dry_run: String(dryRun), prune: String(prune.input.checked) };
    return upload(DEFINITIONS, query, text.value, text.value.trimStart().startsWith("{") ? "application/json" : "application/yaml");
  }

  function preview() {
    if (refusal() !== null) return;
    if (!text.value.trim()) {
      notice("Choose a file, or paste a document", { wrong: true });
      return;
    }
    forget();
    look.disabled = true;
    attempt(async () => {
      const asked = text.value;
      try {
        const found = await send(true);
        if (asked !== text.value) return; // it was edited meanwhile
        plan = found;
        result.show(plan.objects, planWords(plan));
        apply.disabled = plan.changes_count === 0 || counts(plan.objects).refused > 0;
      } catch (problem) {
        if (!problem.members?.mistakes) throw problem;
        result.showMistakes(problem.members.mistakes);
      } finally {
        look.disabled = false;
      }
    });
  }

  async function confirm() {
    if (plan === null) return;
    const { deleted } = counts(plan.objects);
    await ask({
      title: `Apply ${counted(plan.changes_count, "change")}?`,
      text: `${outcomeWords(changing(plan.objects))}. ${deleted ? "Queues are deleted with their messages. " : ""}Objects are changed one after the other; the first refusal ends it.`,
      confirm: "Apply",
      dangerous: deleted > 0,
      action: applyAll,
    });
  }

  /** Apply the document: by several requests if it takes long. */
  async function applyAll() {
    const made = new Map();
    for (;;) {
      const found = await send(false);
      for (const each of found.objects) if (!made.has(keyOf(each)) || !MADE.includes(made.get(keyOf(each)).outcome)) made.set(keyOf(each), each);
      if (!found.time_is_up || !found.made_count) break;
    }
    const objects = [...made.values()];
    plan = null;
    apply.disabled = true;
    const { refused, pending } = counts(objects);
    result.show(objects, `Applied: ${outcomeWords(objects)}.`, refused + pending > 0);
  }

  const element = h(
    "div",
    {},
    h(
      "section",
      { class: "card", "aria-label": "Apply" },
      h("h2", {}, "Apply"),
      field("File", file),
      field("Document, in YAML or JSON", text),
      prune.element,
      h("div", { class: "bar-of-tools" }, look, apply),
    ),
    result.element,
  );
  return { element, preview };
}

const keyOf = (each) => JSON.stringify([each.vpn_name, each.kind, each.name]);

const label = (kind) => LABELS[kind] ?? words(kind).replace(/s$/, "");

function counts(objects) {
  const found = { created: 0, changed: 0, deleted: 0, refused: 0, pending: 0, unchanged: 0, left: 0 };
  for (const { outcome } of objects) found[outcome] += 1;
  return found;
}

const changing = (objects) => objects.filter((each) => !["unchanged", "left"].includes(each.outcome));

function outcomeWords(objects) {
  const parts = Object.entries(counts(objects)).filter(([, number]) => number > 0);
  return parts.map(([outcome, number]) => `${number} ${outcome === "left" ? "not listed" : outcome}`).join(", ") || "no objects";
}

function planWords(plan) {
  if (plan.changes_count === 0) return `Nothing would change: ${outcomeWords(plan.objects)}.`;
  if (counts(plan.objects).refused) return `Nothing can be applied while an object is refused: ${outcomeWords(plan.objects)}.`;
  return `Nothing is changed yet. Applied, it would be: ${outcomeWords(plan.objects)}. ${MAY_FAIL}`;
}

/** What became of the objects of a document, or would; or what is wrong with it. */
class Result {
  #status = h("p", { role: "status" });
  #all = h("input", { type: "checkbox", onchange: () => this.#fill() });
  #mistakes = h("ul", { class: "wrong" });
  #objects = [];
  #table = new LiveTable({
    label: "Objects of the document",
    columns: [
      { title: "", value: (each) => each.outcome, cell: outcomeMark },
      { title: "Object", value: (each) => each.name, cell: (each) => `${label(each.kind)} ${each.name}` },
      { title: "Message VPN", value: (each) => each.vpn_name, wide: true },
      { title: "What", value: detailWords, long: true },
    ],
    key: keyOf,
    open: showObject,
    empty: "No object changes.",
  });

  constructor() {
    this.element = h(
      "section",
      { "aria-label": "Changes", hidden: true },
      h("h2", {}, "Changes"),
      this.#status,
      this.#mistakes,
      h("label", { class: "check" }, this.#all, " Show objects that stay as they are"),
      this.#table.element,
    );
  }

  clear() {
    this.element.hidden = true;
  }

  show(objects, text, isWrong = false) {
    this.#objects = objects;
    this.#open(text, isWrong || counts(objects).refused > 0, []);
    this.#fill();
  }

  showMistakes(mistakes) {
    this.#open(`The document is wrong, in ${counted(mistakes.length, "place")}. Nothing was changed.`, true, mistakes);
  }

  #open(text, isWrong, mistakes) {
    setText(this.#status, text);
    this.#status.className = isWrong ? "wrong" : "";
    this.#mistakes.replaceChildren(...mistakes.map((each) => h("li", {}, mistakeWords(each))));
    this.#mistakes.hidden = mistakes.length === 0;
    this.#table.element.hidden = this.#all.parentElement.hidden = mistakes.length > 0;
    this.element.hidden = false;
    this.element.scrollIntoView({ block: "nearest" });
  }

  #fill() {
    this.#table.show(this.#all.checked ? this.#objects : changing(this.#objects));
  }
}

function mistakeWords({ path, detail, line, column }) {
  if (line) return `Line ${line}, column ${column}: ${detail}`;
  return path ? `${path}: ${detail}` : detail;
}

function outcomeMark({ outcome }) {
  return h("span", { class: CLASSES[outcome] }, `${MARKS[outcome] ?? "="} ${outcome === "left" ? "not listed" : outcome}`);
}

function detailWords({ outcome, reason, fields, before }) {
  if (reason) return reason;
  if (outcome !== "changed") return "";
  return Object.entries(before).map(([name, value]) => `${words(name)}: ${valueWords(value)} → ${valueWords(fields[name])}`).join(", ");
}

function valueWords(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function showObject({ kind, name, fields, before, reason }) {
  const lines = Object.entries(fields).filter(([key]) => key !== "name");
  const rows = lines.map(([key, value]) => [words(key), key in before ? `${valueWords(before[key])} → ${valueWords(value)}` : valueWords(value)]);
  show(name, h("div", {}, h("p", { class: "quiet" }, `${label(kind)}${reason ? `: ${reason}` : ""}`), rows.length ? facts(rows) : null));
}
