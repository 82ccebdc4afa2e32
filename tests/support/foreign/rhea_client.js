// A rhea client for the interop tests: one command a line on standard input, one answer a line on standard output.
//
//     node rhea_client.js '{"host": ..., "port": ..., "id": ..., "ca": ..., "websocket": ...}'
//
// Commands are objects with one of the names below under "do"; an answer comes when the command is done.
const readline = require("readline");
const rhea = require("rhea");

const task = JSON.parse(process.argv[2]);
const container = rhea.create_container({ id: task.id });
container.options.reconnect = task.reconnect ? 50 : false; // milliseconds between attempts
const receivers = {};
let connection;

const say = (answer) => console.log(JSON.stringify(answer));
const condition = (thing) => (thing && thing.error && thing.error.condition) || null;
const plain = (body) => (body && body.typecode === 0x75 ? { data: body.content.toString("hex") } : { value: body });

function show(message, delivery) {
  return {
    ...plain(message.body),
    id: message.message_id,
    group_id: message.group_id,
    delivery_count: message.delivery_count || 0,
    first_acquirer: Boolean(message.first_acquirer),
    properties: message.application_properties,
    annotations: message.message_annotations,
    settled: Boolean(delivery.remote_settled),
  };
}

const settlements = {
  accept: (delivery) => delivery.accept(),
  release: (delivery) => delivery.release(),
  reject: (delivery) => delivery.reject({ condition: "app:unreadable", description: "no" }),
  fail: (delivery) => delivery.modified({ delivery_failed: true, undeliverable_here: false }),
  not_here: (delivery) => delivery.modified({ delivery_failed: true, undeliverable_here: true }),
  annotate: (delivery) =>
    delivery.modified({ delivery_failed: true, undeliverable_here: false, message_annotations: { "x-seen": "yes" } }),
  keep: () => {},
};

// A receiver's messages wait in `held` until a command takes them, so none comes too early.
function deliver(receiver) {
  while (receiver.wanted && receiver.held.length && receiver.shown.length < receiver.wanted.count) {
    const { message, delivery } = receiver.held.shift();
    const how = receiver.wanted.outcomes[receiver.shown.length] || "accept";
    settlements[how](delivery);
    receiver.shown.push(show(message, delivery));
  }
  if (receiver.wanted && receiver.shown.length >= receiver.wanted.count) {
    const messages = receiver.shown;
    receiver.wanted = null;
    receiver.shown = [];
    say({ messages });
  }
}

const commands = {
  send({ address, messages, presettled }) {
    const sender = connection.open_sender({ target: { address }, snd_settle_mode: presettled ? 1 : 0 });
    const outcomes = new Map();
    let refused = null;
    const finish = () => say(refused ? { refused } : { outcomes: messages.map((_, index) => outcomes.get(index)) });
    const settled = (outcome) => (context) => {
      outcomes.set(deliveries.indexOf(context.delivery), outcome(context.delivery));
      if (outcomes.size === messages.length) sender.close();
    };
    const deliveries = [];
    sender.once("sendable", () => {
      for (const message of messages) {
        const body = message.data ? rhea.message.data_section(Buffer.from(message.data, "hex")) : message.body;
        deliveries.push(sender.send({ ...message, body }));
      }
      if (presettled) sender.close();
    });
    sender.on("accepted", settled(() => "accepted"));
    sender.on("released", settled(() => "released"));
    sender.on("rejected", settled((delivery) => `rejected ${delivery.remote_state.error.condition}`));
    sender.on("sender_error", (context) => (refused = condition(context.sender)));
    sender.on("sender_close", finish);
  },
  attach({ name, source, credit_window, autoaccept, snd_settle_mode }) {
    const options = { name, source, snd_settle_mode, credit_window: credit_window || 0, autoaccept: false };
    const receiver = connection.open_receiver(options);
    receivers[name] = { link: receiver, held: [], shown: [], wanted: null };
    let answered = false;
    receiver.on("receiver_open", () => {
      if (!answered && receiver.source && receiver.source.address) {
        answered = true;
        say({ source: { address: receiver.source.address, durable: receiver.source.durable } });
      }
    });
    receiver.on("receiver_error", (context) => {
      answered = true;
      say({ refused: condition(context.receiver) });
    });
    receiver.on("message", (context) => {
      receivers[name].held.push({ message: context.message, delivery: context.delivery });
      deliver(receivers[name]);
    });
  },
  receive({ name, count, outcomes, credit }) {
    const receiver = receivers[name];
    receiver.wanted = { count, outcomes: outcomes || [] };
    if (credit) receiver.link.add_credit(credit);
    deliver(receiver);
  },
  drain({ name }) {
    const receiver = receivers[name];
    receiver.link.once("receiver_drained", () => say({ drained: true, held: receiver.held.length }));
    receiver.link.drain_credit();
  },
  detach({ name }) {
    receivers[name].link.once("receiver_close", () => say({ detached: true }));
    receivers[name].link.once("receiver_detached", () => say({ detached: true }));
    receivers[name].link.detach();
  },
  close_link({ name }) {
    receivers[name].link.once("receiver_close", () => say({ closed: true }));
    receivers[name].link.close();
  },
  close() {
    connection.once("connection_close", () => {
      say({ closed: true });
      process.exit(0);
    });
    connection.close();
  },
};

const options = { id: task.id, container_id: task.id, reconnect: task.reconnect ? 50 : false, ...task.options };
if (task.websocket) {
  options.connection_details = rhea.websocket_connect(require("ws"))(task.websocket, ["amqp"], {});
} else {
  Object.assign(options, { host: task.host, port: task.port });
  if (task.ca) Object.assign(options, { transport: "tls", ca: [task.ca], servername: "localhost" });
}
container.on("connection_error", (context) => {
  // A gateway that shuts down says so with an error; whoever reconnects takes no notice of it.
  if (!task.reconnect) say({ connection_error: condition(context.connection) });
});
container.on("disconnected", (context) => {
  if (!task.reconnect) {
    say({ disconnected: String(context.error || "") });
    process.exit(1);
  }
});
container.on("error", (error) => {
  console.error(String(error.stack || error));
  process.exit(1);
});
container.once("connection_open", (context) => {
  connection = context.connection;
  say({ opened: context.connection.container_id });
});
container.connect(options);
const input = readline.createInterface({ input: process.stdin });
input.on("line", (line) => {
  const command = JSON.parse(line);
  commands[command.do](command);
});
input.on("close", () => process.exit(0));
