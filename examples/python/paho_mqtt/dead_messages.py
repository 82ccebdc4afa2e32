"""Let an order fail that nobody can work on, and find it in the dead message queue.

Paho's `ack` has no reason code, so this worker cannot reject a message. It disconnects instead, as a worker does that
crashes. After `max_redelivery_count` failures the queue gives up.
"""

import os
from urllib.parse import urlsplit

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

broker = urlsplit(os.environ.get("MQTT_URL", "mqtt://127.0.0.1:1883"))
dead = []


def on_connect(client, userdata, flags, reason_code, properties):
    """Consume from both queues."""
    client.subscribe([("$queue/dead", 1), ("$queue/orders", 1)])


def on_subscribe(client, userdata, mid, reason_codes, properties):
    """End if the broker refuses, for example because there is no such queue."""
    if any(each.is_failure for each in reason_codes):
        raise SystemExit(f"not subscribed: {', '.join(map(str, reason_codes))}")


def on_message(client, userdata, message):
    """Tell apart what is dead, what can be worked on, and what cannot."""
    user_properties = dict(message.properties.UserProperty)
    text = message.payload.decode()
    if "sluicegate-dead-reason" in user_properties:
        print(f"dead: {text} ({user_properties['sluicegate-dead-reason']})", flush=True)
        client.ack(message.mid, message.qos)
        dead.append(message)
        client.disconnect()
    elif text.startswith("order "):
        print(f"done: {text}", flush=True)
        client.ack(message.mid, message.qos)
    else:
        print(f"failed: {text}", flush=True)
        client.disconnect()


publisher = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
publisher.connect(broker.hostname, broker.port)
publisher.loop_start()
keyed = Properties(PacketTypes.PUBLISH)
keyed.UserProperty = ("JMSXGroupID", "customer-4")
publisher.publish("orders/eu", "no order at all", qos=1, properties=keyed).wait_for_publish(timeout=30)
publisher.disconnect()
publisher.loop_stop()

client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5, manual_ack=True)
client.on_connect = on_connect
client.on_subscribe = on_subscribe
client.on_message = on_message
client.connect(broker.hostname, broker.port)
client.loop_forever()
while not dead:
    client.reconnect()
    client.loop_forever()
