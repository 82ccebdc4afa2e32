// What clients and the gateway say to each other, packet by packet, as long as the page is open and follows them.

import { events } from "../../api/admin.js";
import { actionButton, refusal } from "../../widgets/access.js";
import { notice } from "../../widgets/dialogs.js";
import { h, setText } from "../../widgets/elements.js";
import { LiveTable } from "../../widgets/table.js";
import { count, counted, moment, size } from "../../widgets/words.js";

const SHOWN_MAX = 500; // packets that are kept, newest first
const PAYLOADS = [0, 100, 1000, 4096]; // bytes of each
const DIRECTIONS = { received: "in", sent: "out", connection: "–" };

export class ClientTrace {
  #request;
  #starts;
  #packets = []; // newest first
  #reading = null; // AbortController of the answer that is read
  #number = 0;
  #leftOut = 0;
  #drawing = false;

  /**
   * `request` returns the path of what is followed, and its query. `starts` is the name of the button, `tools` stand beside it.
   * With `ofSeveral` each packet says which client's it is.
   */
  constructor({ request, title = "Packets", starts = "Follow its packets", tools = [], ofSeveral = false }) {
    this.#request = request;
    this.#starts = starts;
    this.starts = actionButton(starts, () => this.toggle());
    this.payload = h("select", {}, PAYLOADS.map((each) => h("option", { value: each }, each ? `up to ${count(each)} B` : "not shown")));
    this.state = h("span", { class: "quiet", role: "status" }, "not followed");
    this.table = new LiveTable({
      label: "Packets",
      columns: [
        { title: "Time", value: (each) => moment(each.time_ms).slice(11) },
        ...(ofSeveral ? [{ title: "Client", value: (each) => each.client }] : []),
        { title: "Way", value: (each) => DIRECTIONS[each.direction] },
        { title: "Packet", value: (each) => each.kind },
        { title: "Size", value: (each) => each.size_bytes, cell: (each) => (each.size_bytes ? size(each.size_bytes) : "–"), numeric: true, wide: true },
        { title: "Contents", value: contents, long: true },
      ],
      key: (each) => String(each.number),
      empty: "Press the button: packets are shown as they pass, decoded. Passwords, SASL responses and cookies are never shown.",
    });
    this.table.show([]);
    const clear = h("button", { type: "button", onclick: () => this.#clear() }, "Clear");
    this.element = h(
      "section",
      {},
      h("h2", {}, title),
      h("div", { class: "bar-of-tools" }, this.starts, ...tools, h("label", {}, "Payloads ", this.payload), clear),
      h("p", {}, this.state),
      this.table.element,
    );
  }

  toggle() {
    if (this.#reading) this.stop();
    else this.#start();
  }

  stop() {
    this.#reading?.abort();
    this.#reading = null;
    this.#draw();
  }

  async #start() {
    if (refusal() !== null) return notice(refusal(), { wrong: true });
    const reading = new AbortController();
    this.#reading = reading;
    this.#draw();
    try {
      const { path, query } = this.#request();
      for await (const packet of events(path, { ...query, payload: this.payload.value }, reading.signal)) this.#take(packet);
    } catch (problem) {
      if (problem.name === "AbortError" || this.#reading !== reading) return undefined;
      this.stop();
      notice(problem.message, { wrong: true });
    }
    return undefined;
  }

  #take(packet) {
    this.#number += 1;
    this.#leftOut += packet.left_out_count;
    this.#packets.unshift({ ...packet, number: this.#number });
    this.#packets.length = Math.min(this.#packets.length, SHOWN_MAX);
    if (this.#drawing) return;
    this.#drawing = true;
    requestAnimationFrame(() => {
      this.#drawing = false;
      this.#draw();
    });
  }

  #clear() {
    this.#packets = [];
    this.#leftOut = 0;
    this.#draw();
  }

  #draw() {
    setText(this.starts, this.#reading ? "Stop" : this.#starts);
    const parts = [this.#reading ? "followed" : "not followed"];
    if (this.#packets.length) parts.push(counted(this.#packets.length, "packet"));
    if (this.#leftOut) parts.push(`${count(this.#leftOut)} left out: they came too fast`);
    setText(this.state, parts.join(", "));
    this.table.show(this.#packets);
  }
}

/** Return what a packet says, on one line. */
function contents(packet) {
  if (packet.direction === "connection") return packet.address;
  const parts = Object.entries(packet.fields).filter(([, value]) => value !== null).map(([name, value]) => `${name}=${shown(value)}`);
  if (packet.reason_code !== null) parts.push(`0x${packet.reason_code.toString(16).padStart(2, "0")} ${packet.reason ?? ""}`.trim());
  else if (packet.reason !== null) parts.push(packet.reason);
  parts.push(...packet.properties.map(([name, value]) => `[${name}: ${value}]`));
  if (packet.payload !== null) parts.push(`payload=${packet.payload}${packet.payload_encoding === "base64" ? " (base64)" : ""}`);
  return parts.join(" ") || "–";
}

function shown(value) {
  if (typeof value === "boolean") return value ? "yes" : "no";
  return String(value);
}
