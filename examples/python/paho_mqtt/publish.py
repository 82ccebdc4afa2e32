"""Publish twelve orders of three customers; the orders of a customer stay in their order."""

import os
from urllib.parse import urlsplit

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

broker = urlsplit(os.environ.get("MQTT_URL", "mqtt://127.0.0.1:1883"))

refused = []


def on_publish(client, userdata, mid, reason_code, properties):
    """Note what the broker refuses: a PUBACK may say so."""
    if reason_code.is_failure:
        refused.append(str(reason_code))


client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
client.on_publish = on_publish
client.connect(broker.hostname, broker.port)
client.loop_start()

published = []
for number in range(1, 13):
    keyed = Properties(PacketTypes.PUBLISH)
    keyed.UserProperty = ("JMSXGroupID", f"customer-{number % 3 + 1}")  # the partition key
    keyed.PayloadFormatIndicator = 1  # text: AMQP clients get a string, not bytes
    published.append(client.publish("orders/eu", f"order {number}", qos=1, properties=keyed))
for each in published:
    each.wait_for_publish(timeout=30)  # until PUBACK, or for so long
if refused or not all(each.is_published() for each in published):
    raise SystemExit(f"not stored: {', '.join(sorted(set(refused))) or 'no answer'}")
print("12 orders published")

client.disconnect()
client.loop_stop()
