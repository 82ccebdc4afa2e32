// Publish messages, and watch topics as messages come.

import { lines, post } from "../api/admin.js";
import { actionButton, refusal } from "../widgets/access.js";
import { attempt, notice } from "../widgets/dialogs.js";
import { facts, h, linesOf, numberOf, setText } from "../widgets/elements.js";
import { formChoice, formatted, payloadView } from "../widgets/payload.js";
import { LiveTable } from "../widgets/table.js";
import { count, counted, moment, size } from "../widgets/words.js";
import { endFirstSteps } from "./first-steps.js";
import { queueNames } from "./queues/queues.js";

const SHOWN_MAX = 200; // messages of a watch that are kept, newest first
const HEAD_CHARS = 120; // of a payload, in the list

export function open(place) {
  const watch = new Watch();
  place.append(h("h1", {}, "Publish & watch"), publishing(watch), watch.element);
  return {
    refresh: async () => watch.show(),
    close: () => watch.stop(),
    back: () => watch.closeMessage(),
    keys: [
      { key: "w", meaning: "watch, or stop", press: () => watch.toggle() },
      { key: "P", meaning: "hold the list, or let it go on", press: () => watch.hold() },
      { key: "c", meaning: "clear the list", press: () => watch.clear() },
    ],
  };
}

// --- publish ---

function field(label, input, hint = "") {
  return h("label", { class: "field" }, label, input, hint ? h("small", {}, hint) : null);
}

const text = (name, more = {}) => h("input", { name, autocomplete: "off", ...more });
const choice = (name, options) => h("select", { name }, options.map(([value, label]) => h("option", { value }, label)));

function publishing(watch) {
  const names = h("datalist", { id: "publish-queues" });
  const to = choice("to", [["topic", "Topic"], ["queue", "Queue"]]);
  const destination = text("destination", { required: true, placeholder: "orders/eu/7" });
  const outcome = h("p", { role: "status" });
  const send = actionButton("Publish", () => form.requestSubmit(), { kind: "primary" });
  const form = h(
    "form",
    { class: "card", "aria-label": "Publish" },
    h("h2", {}, "Publish"),
    h(
      "div",
      { class: "fields" },
      field("To", to),
      field("Topic or queue", destination),
      field("Delivery", choice("delivery_mode", [["persistent", "persistent (QoS 1)"], ["direct", "direct (QoS 0)"]])),
      field("Partition key", text("key", { placeholder: "customer-7" })),
    ),
    field("Payload", h("textarea", { name: "payload", rows: 4, placeholder: '{"amount": 12}' })),
    h(
      "details",
      {},
      h("summary", {}, "Properties and options"),
      h(
        "div",
        { class: "fields" },
        field("Properties", h("textarea", { name: "properties", rows: 3, placeholder: "amount=12" }), "name=value, one per line; numbers, true and false are typed"),
        field("Content type", text("content_type", { placeholder: "application/json" })),
        field("Reply to topic", text("reply_to")),
        field("Correlation ID", text("correlation_id")),
        field("Expires after, in ms", text("expiry_ms", { placeholder: "0", inputmode: "numeric" }), "0: never"),
        field("Priority, 0 to 9", text("priority", { placeholder: "4", inputmode: "numeric" })),
        field("Payload is", choice("payload_encoding", [["text", "text"], ["base64", "base64"]])),
        field("Retain", choice("retain", [["", "no"], ["true", "yes"]]), "with an empty payload: delete what is retained"),
        field("Copies", text("count", { placeholder: "1", inputmode: "numeric" }), "at most 1,000"),
      ),
    ),
    h("div", { class: "bar-of-tools" }, send, actionButton("Watch this topic", () => watchIt()), outcome),
    names,
  );

  const offer = () => attempt(async () => names.replaceChildren(...(await queueNames()).map((each) => h("option", { value: each }))));
  to.addEventListener("change", () => {
    if (to.value === "queue") {
      destination.setAttribute("list", names.id);
      offer();
    } else {
      destination.removeAttribute("list");
    }
    destination.placeholder = to.value === "queue" ? "orders" : "orders/eu/7";
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (refusal() !== null) return;
    send.disabled = true;
    attempt(async () => {
      try {
        const done = await post("publish", bodyOf(Object.fromEntries(new FormData(form).entries())));
        if (done.published_count) endFirstSteps();
        setText(outcome, outcomeWords(done));
        outcome.className = done.refusal ? "wrong" : "good";
      } finally {
        send.disabled = false;
      }
    });
  });

  function watchIt() {
    if (to.value === "queue") notice("A queue is not watched: its page shows its messages", { wrong: true });
    else watch.start(destination.value.trim());
  }

  return form;
}

/** Return the body of a request: what was left empty is omitted. */
function bodyOf({ to, destination, properties, retain, expiry_ms: expiry, priority, count: copies, ...texts }) {
  const body = { [to]: destination.trim() };
  for (const [name, value] of Object.entries(texts)) if (value !== "") body[name] = value;
  for (const [name, value] of Object.entries({ expiry_ms: expiry, priority, count: copies })) if (value.trim()) body[name] = numberOf(value.trim());
  if (retain) body.retain = true;
  if (properties.trim()) body.properties = Object.fromEntries(linesOf(properties).map(property));
  return body;
}

function property(line) {
  const at = line.indexOf("=");
  if (at < 1) throw new Error(`this is no property: ${line}; write name=value`);
  const value = line.slice(at + 1).trim();
  return [line.slice(0, at).trim(), typed(value)];
}

/** Return a value with its type. What a number would not keep as it is written, such as 0049, stays a text. */
function typed(value) {
  if (value === "true" || value === "false") return value === "true";
  const number = Number(value);
  const isExact = /^-?\d+(\.\d+)?$/.test(value) && String(number) === value;
  return isExact && (!Number.isInteger(number) || Number.isSafeInteger(number)) ? number : value;
}

function outcomeWords(done) {
  const parts = [`${counted(done.published_count, "message")} published`];
  if (done.unmatched_count) parts.push("nobody subscribes to the topic");
  if (done.refused_count) parts.push(`${count(done.refused_count)} not published: ${done.refusal}`);
  return parts.join(", ");
}

// --- watch ---

class Watch {
  #messages = []; // newest first
  #reading = null; // AbortController of the answer that is read
  #opened = null; // number of a message
  #number = 0;
  #dropped = 0;
  #held = false;
  #drawing = false;

  constructor() {
    this.filter = h("input", { type: "search", placeholder: "Topic filter: orders/# or orders/>", "aria-label": "Topic filter", class: "grow" });
    this.starts = actionButton("Watch", () => this.toggle(), { kind: "primary" });
    this.holds = h("button", { type: "button", onclick: () => this.hold(), disabled: true }, "Hold");
    this.form = formChoice("text", () => this.#draw());
    this.state = h("span", { class: "quiet", role: "status" }, "not watching");
    this.details = h("section", { class: "details", hidden: true });
    this.table = new LiveTable({
      label: "Watched messages",
      columns: [
        { title: "Time", value: (each) => moment(each.received_ms).slice(11) },
        { title: "Topic", value: (each) => each.topic },
        { title: "Key", value: (each) => each.key ?? "–", wide: true },
        { title: "Payload", value: (each) => this.#head(each), long: true },
        { title: "Size", value: (each) => size(each.size_bytes), numeric: true, wide: true },
        { title: "QoS", value: (each) => `${each.qos}${each.retain ? ", retain" : ""}`, wide: true },
        { title: "Publisher", value: (each) => each.publisher || "–", wide: true },
      ],
      key: (each) => String(each.number),
      open: (each) => this.#open(each.number),
      empty: "No messages yet. Give a topic filter and press Watch: messages are shown as clients publish them. Nothing is taken away from anybody.",
    });
    this.filter.addEventListener("keydown", (event) => event.key === "Enter" && this.start(this.filter.value.trim()));
    this.element = h(
      "section",
      {},
      h("h2", {}, "Watch"),
      h("div", { class: "bar-of-tools" }, this.filter, this.starts, this.holds, h("button", { type: "button", onclick: () => this.clear() }, "Clear"), h("label", {}, "Payload as ", this.form)),
      h("p", {}, this.state),
      this.table.element,
      this.details,
    );
  }

  toggle() {
    if (this.#reading) this.stop();
    else this.start(this.filter.value.trim());
  }

  async start(topic) {
    this.stop();
    if (refusal() !== null) return notice(refusal(), { wrong: true });
    if (!topic) return this.filter.focus();
    this.filter.value = topic;
    const reading = new AbortController();
    this.#reading = reading;
    this.#dropped = 0;
    this.#tell();
    try {
      for await (const message of lines("watch", { topic }, reading.signal)) this.#take(message);
    } catch (problem) {
      if (problem.name === "AbortError" || this.#reading !== reading) return undefined;
      this.stop();
      notice(problem.message, { wrong: true });
    }
    return undefined;
  }

  stop() {
    this.#reading?.abort();
    this.#reading = null;
    this.#held = false;
    this.#draw();
  }

  hold() {
    if (!this.#reading) return;
    this.#held = !this.#held;
    this.#draw();
  }

  clear() {
    this.#messages = [];
    this.#dropped = 0;
    this.closeMessage();
    this.#draw();
  }

  /** Close the message that is open; return whether one was. */
  closeMessage() {
    const was = this.#opened !== null;
    this.#open(null);
    return was;
  }

  show() {
    if (!this.#held) this.table.show(this.#messages);
    this.#tell();
  }

  #take(message) {
    this.#number += 1;
    this.#dropped += message.dropped_count;
    this.#messages.unshift({ ...message, number: this.#number });
    if (this.#messages.length > SHOWN_MAX) this.#messages.pop();
    if (this.#drawing) return;
    this.#drawing = true; // once per frame, however many come
    requestAnimationFrame(() => {
      this.#drawing = false;
      this.show();
    });
  }

  #draw() {
    this.show();
    setText(this.starts, this.#reading ? "Stop" : "Watch");
    setText(this.holds, this.#held ? "Go on" : "Hold");
    this.holds.disabled = this.#reading === null;
  }

  #tell() {
    setText(this.starts, this.#reading ? "Stop" : "Watch");
    this.holds.disabled = this.#reading === null;
    const parts = [this.#reading ? (this.#held ? "held" : "watching") : "not watching", counted(this.#messages.length, "message")];
    if (this.#messages.length === SHOWN_MAX) parts.push("older ones are gone from this list");
    if (this.#dropped) parts.push(`${count(this.#dropped)} not shown: they came too fast`);
    setText(this.state, parts.join(", "));
  }

  #head(message) {
    if (message.size_bytes === 0) return "(empty)";
    const line = formatted(message.payload, message.payload_encoding, this.form.value).replaceAll(/\s+/g, " ");
    return line.length > HEAD_CHARS ? `${line.slice(0, HEAD_CHARS)}…` : line;
  }

  #open(number) {
    this.#opened = this.#opened === number ? null : number;
    const message = this.#messages.find((each) => each.number === this.#opened);
    this.details.hidden = !message;
    if (message) this.details.replaceChildren(h("button", { type: "button", class: "close", onclick: () => this.closeMessage() }, "Close"), ...contents(message));
  }
}

function contents(message) {
  const pairs = [
    ["Publisher", message.publisher || "–"],
    ["Received", moment(message.received_ms)],
    ["Partition key", message.key ?? "–"],
    ["QoS", String(message.qos)],
    ["Content type", message.content_type ?? "–"],
    ["Reply to", message.reply_to ?? "–"],
    ["Correlation ID", message.correlation_id ?? "–"],
    ["Size", `${count(message.size_bytes)} B`],
    ...message.properties.map(([name, value]) => [`Property ${name}`, value]),
  ];
  const cut = message.properties_truncated ? h("p", { class: "quiet" }, "Of the properties the beginning is shown.") : "";
  const note = message.payload_truncated ? h("p", { class: "quiet" }, "The beginning of the payload:") : "";
  return [h("h2", {}, message.topic), facts(pairs, { many: true }), cut, note, payloadView(message.payload, message.payload_encoding)];
}
