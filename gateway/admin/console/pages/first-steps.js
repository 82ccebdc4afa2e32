// Guided first steps in a broker that has carried no message yet: connect, publish, see. It is a part of the overview.

import { get } from "../api/admin.js";
import { accountName, seesNode } from "../widgets/access.js";
import { notice } from "../widgets/dialogs.js";
import { h, setText } from "../widgets/elements.js";

const HIDDEN = "sluicegate-first-steps-hidden"; // in the browser's storage
const LOOK_MS = 3_000;
const ANYWHERE = ["0.0.0.0", "::", "[::]"]; // addresses that a client does not connect to
const TOPIC = "hello/world";
const PAHO_PUBLISH = `import sys, paho.mqtt.client as mqtt; client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2); client.connect(sys.argv[1], int(sys.argv[2])); client.loop_start(); client.publish('${TOPIC}', 'first message', qos=1).wait_for_publish(); client.disconnect()`;
const PAHO_SUBSCRIBE = "import sys, paho.mqtt.subscribe as mqtt; mqtt.callback(lambda client, data, message: print(message.topic, message.payload.decode(), flush=True), 'hello/#', hostname=sys.argv[1], port=int(sys.argv[2]))";

let hiddenHere = false; // since the console was loaded: a browser may have no storage

/** Return the first steps; they are hidden where they are not needed, and stay to the end for who follows them. */
export function firstSteps() {
  const element = h("section", { class: "card first-steps", hidden: true, "aria-label": "First steps" });
  if (seesNode() && !isHidden()) look(element, null);
  return element;
}

/** Show the steps if the broker has carried nothing, and say when it has, as long as the page is open. */
async function look(element, shown) {
  let steps = shown;
  try {
    const [figures, found] = await Promise.all([get("figures"), get("listeners")]);
    const carried = figures.protocols.reduce((sum, each) => sum + each.messages_received_total + each.messages_sent_total, 0);
    element.hidden = isHidden() || (carried > 0 && steps === null);
    if (!element.hidden && steps === null) {
      steps = found.listeners;
      element.replaceChildren(...contents(element, steps));
    }
    if (!element.hidden && carried > 0) {
      const text = "The broker has carried its first message. This guide is gone when you open the page again.";
      return setText(element.querySelector(".about"), text);
    }
  } catch {
    // the page says what is wrong; this is looked at again
  }
  if (!isHidden()) setTimeout(() => element.isConnected && look(element, steps), LOOK_MS);
  return undefined;
}

function isHidden() {
  if (hiddenHere) return true;
  try {
    return localStorage.getItem(HIDDEN) !== null;
  } catch {
    return false; // a browser without storage
  }
}

/** Show the steps no more in this browser: the operator has published a message, which no client has carried. */
export function endFirstSteps() {
  hiddenHere = true;
  try {
    localStorage.setItem(HIDDEN, "1");
  } catch {
    // then they come back when the console is loaded again
  }
}

function hide(element) {
  element.hidden = true;
  endFirstSteps();
}

function contents(element, listeners) {
  const ways = [...mqtt(listeners), ...http(listeners)];
  return [
    h("button", { type: "button", class: "close", onclick: () => hide(element) }, "Hide"),
    h("h2", {}, "First steps"),
    h("p", { class: "quiet about", role: "status" }, "This broker has carried no message yet. These steps send the first one."),
    ways.length ? h("div", {}, choice(ways)) : h("p", {}, "No port without TLS is open for clients: ", h("a", { href: "#/listeners" }, "Listeners"), "."),
  ];
}

/** Return the steps of the chosen way, and the choice. */
function choice(ways) {
  const steps = h("ol", { class: "steps" });
  const show = () => {
    const way = ways.find((each) => each.name === names.value);
    steps.replaceChildren(
      step("Connect and subscribe", [way.about, " All addresses: ", h("a", { href: "#/listeners" }, "Listeners"), "."], way.subscribe),
      step("Publish a message", ["In another terminal, or on the page ", h("a", { href: "#/publish" }, "Publish & watch"), "."], way.publish),
      step("See it", [
        "The first terminal prints it. Who is connected: ",
        h("a", { href: "#/clients" }, "Clients"),
        ". To keep messages until workers take them, make a ",
        h("a", { href: "#/queues" }, "queue"),
        " with the subscription hello/>.",
      ]),
    );
  };
  const names = h("select", { "aria-label": "Client", onchange: show }, ways.map((each) => h("option", { value: each.name }, each.name)));
  show();
  return h("div", {}, h("label", {}, "With ", names), steps);
}

function step(title, text, command) {
  return h("li", {}, h("strong", {}, title), h("p", {}, text), command ? copied(command) : null);
}

/** Return a command with a button that copies it. */
function copied(command) {
  const text = h("code", { tabindex: 0 }, command);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(command);
      notice("Copied");
    } catch {
      getSelection().selectAllChildren(text); // a page without TLS may not copy
      notice("Press Ctrl+C to copy");
    }
  };
  return h("div", { class: "command" }, text, h("button", { type: "button", onclick: copy }, "Copy"));
}

/** Return the listeners of a protocol whose clients need nothing else: no TLS, no WebSocket. */
function plain(listeners, protocol) {
  return listeners.filter((each) => each.protocol === protocol && !each.tls && !each.websocket).slice(0, 1);
}

const hostOf = ({ host }) => (ANYWHERE.includes(host) ? location.hostname : host);

function mqtt(listeners) {
  return plain(listeners, "mqtt").flatMap((each) => {
    const at = `-h ${hostOf(each)} -p ${each.port}`;
    const ours = `--host ${hostOf(each)} --port ${each.port}`;
    return [
      {
        name: "MQTT: the command sluicegate",
        about: `MQTT is at ${hostOf(each)}:${each.port}.`,
        subscribe: `sluicegate sub ${ours} --topic 'hello/#'`,
        publish: `sluicegate pub ${ours} --topic ${TOPIC} --message 'first message'`,
      },
      {
        name: "MQTT: mosquitto_sub and mosquitto_pub",
        about: `MQTT is at ${hostOf(each)}:${each.port}.`,
        subscribe: `mosquitto_sub ${at} -v -t 'hello/#'`,
        publish: `mosquitto_pub ${at} -t ${TOPIC} -m 'first message'`,
      },
      {
        name: "MQTT: Python with Eclipse Paho",
        about: `MQTT is at ${hostOf(each)}:${each.port}. The library: pip install paho-mqtt.`,
        subscribe: `python3 -c "${PAHO_SUBSCRIBE}" ${hostOf(each)} ${each.port}`,
        publish: `python3 -c "${PAHO_PUBLISH}" ${hostOf(each)} ${each.port}`,
      },
    ];
  });
}

function http(listeners) {
  return plain(listeners, "http").map((each) => ({
    name: "HTTP: curl",
    about: "The admin port shows messages on topics as they come.",
    subscribe: `curl -sN ${asOperator()}'${new URL("../watch", location.href).href}?topic=hello/%23'`,
    publish: `curl -H 'Content-Type: text/plain' -d 'first message' http://${hostOf(each)}:${each.port}/TOPIC/${TOPIC}`,
  }));
}

/** Return the option of curl that names this account; curl asks for its password. */
function asOperator() {
  const name = accountName();
  return name && `-u '${name.replaceAll("'", "'\\''")}' `;
}
