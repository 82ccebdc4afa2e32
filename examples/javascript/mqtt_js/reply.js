// Answers questions for prices until Ctrl-C. Several of these share the questions.
//
// MQTT.js acknowledges a question before the broker has stored the answer: if this program dies in between, the answer
// is lost, and the question does not come again.
import mqtt from "mqtt";

const PRICES = { apple: "0.30", pear: "0.45" };

const client = await mqtt.connectAsync(process.env.MQTT_URL ?? "mqtt://127.0.0.1:1883", { protocolVersion: 5 });

client.on("message", (topic, payload, packet) => {
  const { responseTopic, correlationData } = packet.properties; // the topic may be a queue of an AMQP client
  if (!responseTopic) return; // nobody waits for an answer
  const properties = { correlationData, payloadFormatIndicator: true };
  client.publish(responseTopic, PRICES[payload.toString()] ?? "unknown", { qos: 1, properties });
});
await client.subscribeAsync("$queue/prices", { qos: 1 });
