// Publishes twelve orders of three customers; the orders of a customer stay in their order.
import mqtt from "mqtt";

const client = await mqtt.connectAsync(process.env.MQTT_URL ?? "mqtt://127.0.0.1:1883", { protocolVersion: 5 });

const published = [];
for (let number = 1; number <= 12; number++) {
  const properties = {
    userProperties: { JMSXGroupID: `customer-${(number % 3) + 1}` }, // the partition key
    payloadFormatIndicator: true, // text: AMQP clients get a string, not bytes
  };
  published.push(client.publishAsync("orders/eu", `order ${number}`, { qos: 1, properties }));
}
await Promise.all(published); // the broker has stored them
console.log("12 orders published");
await client.endAsync();
