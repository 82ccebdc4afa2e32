"""Work on orders until Ctrl-C. Start as many of these as you like: they share the queue by customers."""

import os
from urllib.parse import urlsplit

import paho.mqtt.client as mqtt

broker = urlsplit(os.environ.get("MQTT_URL", "mqtt://127.0.0.1:1883"))


def on_connect(client, userdata, flags, reason_code, properties):
    """Consume from the queue, at each new connection."""
    client.subscribe("$queue/orders", qos=1)


def on_subscribe(client, userdata, mid, reason_codes, properties):
    """End if the broker refuses, for example because there is no such queue."""
    if any(each.is_failure for each in reason_codes):
        raise SystemExit(f"not subscribed: {reason_codes[0]}")


def on_message(client, userdata, message):
    """Work on one order, then acknowledge it."""
    user_properties = dict(message.properties.UserProperty)
    print(f"{user_properties.get('JMSXGroupID', 'no key')}: {message.payload.decode()}", flush=True)
    client.ack(message.mid, message.qos)  # before this, the order comes again if the worker dies


client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5, manual_ack=True)
client.on_connect = on_connect
client.on_subscribe = on_subscribe
client.on_message = on_message
client.connect(broker.hostname, broker.port)
try:
    client.loop_forever()
except KeyboardInterrupt:
    client.disconnect()
