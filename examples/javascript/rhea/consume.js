// Works on orders until Ctrl-C. Start as many of these as you like: they share the queue by customers.
import { connection } from "./connection.js";

// credit_window is how many orders it holds at once; no other worker has them.
const receiver = connection.open_receiver({ source: "orders", credit_window: 10, autoaccept: false });

receiver.on("message", ({ message, delivery }) => {
  console.log(`${message.group_id}: ${message.body}`);
  delivery.accept(); // before this, the order comes again if the worker dies
});
