// Asks for the price of an apple, and prints the answer.
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import mqtt from "mqtt";

const client = await mqtt.connectAsync(process.env.MQTT_URL ?? "mqtt://127.0.0.1:1883", { protocolVersion: 5 });

const responseTopic = `answers/${randomUUID()}`;
await client.subscribeAsync(responseTopic, { qos: 1 }); // before the question: no answer comes too early
const answered = once(client, "message");
const properties = { responseTopic, correlationData: Buffer.from("1"), payloadFormatIndicator: true };
await client.publishAsync("$queue/prices", "apple", { qos: 1, properties });

const [, payload] = await answered;
console.log(`apple: ${payload}`);
await client.endAsync();
