"""Ask for the price of an apple, and print the answer."""

import os
import uuid
from urllib.parse import urlsplit

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

broker = urlsplit(os.environ.get("MQTT_URL", "mqtt://127.0.0.1:1883"))
answers = f"answers/{uuid.uuid4().hex}"
question = b"1"  # its number, which comes back with the answer


def on_connect(client, userdata, flags, reason_code, properties):
    """Listen for the answer first."""
    client.subscribe(answers, qos=1)


def on_subscribe(client, userdata, mid, reason_codes, properties):
    """Ask when the broker has the subscription."""
    if reason_codes[0].is_failure:
        raise SystemExit(f"not subscribed: {reason_codes[0]}")
    asked = Properties(PacketTypes.PUBLISH)
    asked.ResponseTopic = answers
    asked.CorrelationData = question
    asked.PayloadFormatIndicator = 1  # text: an AMQP client that answers gets a string, not bytes
    client.publish("$queue/prices", "apple", qos=1, properties=asked)


def on_message(client, userdata, message):
    """Print the answer to this question."""
    if message.properties.CorrelationData == question:
        print(f"apple: {message.payload.decode()}")
        client.disconnect()


client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
client.on_connect = on_connect
client.on_subscribe = on_subscribe
client.on_message = on_message
client.connect(broker.hostname, broker.port)
client.loop_forever()
