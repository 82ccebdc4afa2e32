"""Answer questions for prices until Ctrl-C. Several of these share the questions.

Paho acknowledges a question when `on_message` returns, before the broker has stored the answer: if this program dies in
between, the answer is lost, and the question does not come again.
"""

import os
from urllib.parse import urlsplit

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

PRICES = {"apple": "0.30", "pear": "0.45"}

broker = urlsplit(os.environ.get("MQTT_URL", "mqtt://127.0.0.1:1883"))


def on_connect(client, userdata, flags, reason_code, properties):
    """Take questions from the queue, at each new connection."""
    client.subscribe("$queue/prices", qos=1)


def on_subscribe(client, userdata, mid, reason_codes, properties):
    """End if the broker refuses, for example because there is no such queue."""
    if any(each.is_failure for each in reason_codes):
        raise SystemExit(f"not subscribed: {reason_codes[0]}")


def on_message(client, userdata, message):
    """Answer to the response topic, which may be a queue of an AMQP client."""
    if not hasattr(message.properties, "ResponseTopic"):
        return  # nobody waits for an answer
    answer = Properties(PacketTypes.PUBLISH)
    answer.PayloadFormatIndicator = 1  # text: an AMQP client that asked gets a string, not bytes
    if hasattr(message.properties, "CorrelationData"):
        answer.CorrelationData = message.properties.CorrelationData
    price = PRICES.get(message.payload.decode(), "unknown")
    client.publish(message.properties.ResponseTopic, price, qos=1, properties=answer)


client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
client.on_connect = on_connect
client.on_subscribe = on_subscribe
client.on_message = on_message
client.connect(broker.hostname, broker.port)
try:
    client.loop_forever()
except KeyboardInterrupt:
    client.disconnect()
