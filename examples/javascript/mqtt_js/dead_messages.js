// Rejects an order that nobody can work on, and finds it in the dead message queue.
import mqtt from "mqtt";

const REJECTED = 0x83; // in PUBACK, from 0x80 on: never deliver it again

const client = await mqtt.connectAsync(process.env.MQTT_URL ?? "mqtt://127.0.0.1:1883", {
  protocolVersion: 5,
  customHandleAcks(topic, message, packet, acknowledge) {
    const text = message.toString();
    const reason = packet.properties.userProperties["sluicegate-dead-reason"];
    if (reason) {
      console.log(`dead: ${text} (${reason})`);
      acknowledge(0);
      client.end();
    } else if (text.startsWith("order ")) {
      console.log(`done: ${text}`);
      acknowledge(0);
    } else {
      console.log(`rejected: ${text}`);
      acknowledge(REJECTED);
    }
  },
});

const properties = { userProperties: { JMSXGroupID: "customer-4" } };
await client.publishAsync("orders/eu", "no order at all", { qos: 1, properties });
await client.subscribeAsync(["$queue/dead", "$queue/orders"], { qos: 1 });
