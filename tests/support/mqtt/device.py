"""A device as a user has it: a Paho client that connects again by itself, and what it was told."""

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from sluicegate.testing import Broker

WITHIN_S = 20


class Device:
    """An MQTT client that connects again by itself, and what it was told."""

    def __init__(self, broker: Broker, name: str, *, will: str = "", keep_alive_s: int = 60) -> None:
        self.messages: queue.Queue[str] = queue.Queue()
        self.lost = threading.Event()
        self.connected: queue.Queue[None] = queue.Queue()
        self.client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=name)
        self.client.reconnect_delay_set(1, 1)
        if will:
            self.client.will_set(will, name)
        self.client.on_message = lambda *arguments: self.messages.put(arguments[2].payload.decode())
        self.client.on_disconnect = lambda *_: self.lost.set()
        self.client.on_connect = lambda *_: self.connected.put(None)
        self.client.connect(broker.host, broker.mqtt_port, keepalive=keep_alive_s)
        self.client.loop_start()
        self.connected.get(timeout=WITHIN_S)


@contextmanager
def device(broker: Broker, name: str, *, will: str = "", keep_alive_s: int = 60) -> Iterator[Device]:
    found = Device(broker, name, will=will, keep_alive_s=keep_alive_s)
    yield found
    found.client.disconnect()
    found.client.loop_stop()
