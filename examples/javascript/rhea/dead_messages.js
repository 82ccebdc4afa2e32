// Rejects an order that nobody can work on, and finds it in the dead message queue.
import { connection, failUnlessStored } from "./connection.js";

function work({ message, delivery, receiver }) {
  if (message.body.startsWith("order ")) {
    console.log(`done: ${message.body}`);
    delivery.accept();
  } else {
    console.log(`rejected: ${message.body}`);
    delivery.reject({ condition: "orders:unreadable", description: "no order" }); // .modified(...) gives it a new try
    receiver.close();
    connection.open_receiver("dead").on("message", show);
  }
}

function show({ message }) {
  console.log(`dead: ${message.body} (${message.message_annotations["x-opt-sluicegate-dead-reason"]})`);
  connection.close();
}

const sender = connection.open_sender("orders");
failUnlessStored(sender);
sender.once("sendable", () => sender.send({ body: "no order at all", group_id: "customer-4", durable: true }));
sender.once("accepted", () => {
  connection.open_receiver({ source: "orders", credit_window: 1, autoaccept: false }).on("message", work);
});
