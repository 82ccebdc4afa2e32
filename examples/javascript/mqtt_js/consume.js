// Works on orders until Ctrl-C. Start as many of these as you like: they share the queue by customers.
import mqtt from "mqtt";

async function work(key, text) {
  console.log(`${key}: ${text}`);
}

const client = await mqtt.connectAsync(process.env.MQTT_URL ?? "mqtt://127.0.0.1:1883", { protocolVersion: 5 });

// The order is acknowledged at the callback. Before it, the order comes again if the worker dies.
client.handleMessage = (packet, callback) => {
  work(packet.properties.userProperties.JMSXGroupID, packet.payload.toString()).then(() => callback(), callback);
};
await client.subscribeAsync("$queue/orders", { qos: 1 });
