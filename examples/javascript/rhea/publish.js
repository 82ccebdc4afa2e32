// Publishes twelve orders of three customers; the orders of a customer stay in their order.
import { connection, failUnlessStored } from "./connection.js";

const COUNT = 12;
const sender = connection.open_sender({ target: { address: "orders/eu", capabilities: ["topic"] } });
failUnlessStored(sender);

let sent = 0;
sender.on("sendable", () => {
  while (sent < COUNT && sender.sendable()) {
    sent++;
    const customer = `customer-${(sent % 3) + 1}`;
    sender.send({ body: `order ${sent}`, group_id: customer, durable: true }); // group_id is the partition key
  }
});

let stored = 0;
sender.on("accepted", () => {
  stored++; // the broker has it on disk
  if (stored === COUNT) {
    console.log(`${COUNT} orders published`);
    connection.close();
  }
});
