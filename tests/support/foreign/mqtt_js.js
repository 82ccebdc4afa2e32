// A script for the interop tests: publish what it is told, or print what it receives, with mqtt.js.
//
//     node mqtt_js.js '{"url": ..., "options": {...}, "publish": [[topic, payload, options], ...]}'
//     node mqtt_js.js '{"url": ..., "options": {...}, "subscribe": [filter, qos], "count": N}'
//
// A subscriber prints "subscribed", then one JSON object for each message.
const mqtt = require("mqtt");

const task = JSON.parse(process.argv[2]);
const client = mqtt.connect(task.url, { reconnectPeriod: 0, connectTimeout: 10000, ...task.options });
let left = task.count;

client.on("error", (error) => {
  console.error(String(error));
  process.exit(1);
});
client.on("connect", async () => {
  if (task.publish) {
    for (const [topic, payload, options] of task.publish) {
      await client.publishAsync(topic, payload, options);
    }
    await client.endAsync();
    return;
  }
  const [filter, qos] = task.subscribe;
  const granted = await client.subscribeAsync(filter, { qos });
  console.log(JSON.stringify({ subscribed: granted.map((each) => each.qos) }));
});
client.on("message", (topic, payload, packet) => {
  const properties = packet.properties || {};
  console.log(
    JSON.stringify({
      topic,
      payload: payload.toString(),
      qos: packet.qos,
      retain: packet.retain,
      content_type: properties.contentType,
      user_properties: properties.userProperties && { ...properties.userProperties },
    }),
  );
  left -= 1;
  if (left === 0) {
    // Behind the acknowledgement of this message, which is sent once this returns.
    setImmediate(() => client.end());
  }
});
