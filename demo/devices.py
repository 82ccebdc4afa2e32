"""The demo's devices: an MQTT 5 connection for each sensor, which publishes its readings with QoS 1.

The sensor's name is the partition key, so its readings stay in order across the workers.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, final
from urllib.parse import urlsplit

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from demo.processes import DemoFailed
from demo.readings import Reading

PARTITION_KEY: Final = "JMSXGroupID"
CONFIRMED_WITHIN_S: Final = 300.0
LOOK_EVERY_S: Final = 0.1


@final
class Device:
    """One sensor and its connection."""

    def __init__(self, sensor: str, readings: Sequence[Reading]) -> None:
        self.confirmed_count = 0
        self.refused_count = 0
        self._sensor = sensor
        self._readings = readings
        self._client = mqtt.Client(
            CallbackAPIVersion.VERSION2, sensor.replace("/", "-"), protocol=MQTTProtocolVersion.MQTTv5
        )
        self._client.max_inflight_messages_set(1_000)  # paho's 20 would make it wait for the disk all the time
        self._client.on_publish = self._on_publish

    @property
    def is_done(self) -> bool:
        """Whether the gateway has acknowledged every reading."""
        return self.confirmed_count + self.refused_count == len(self._readings)

    def begin(self, host: str, port: int) -> None:
        """Connect, and pass all readings to paho, whose thread sends them."""
        self._client.connect(host, port)
        self._client.loop_start()
        for each in self._readings:
            section = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # paho left it untyped
            section.UserProperty = [(PARTITION_KEY, self._sensor)]
            section.CorrelationData = each.identity
            section.ContentType = "application/json"
            self._client.publish(f"weather/{self._sensor}", each.payload, qos=1, properties=section)

    def end(self) -> None:
        """Disconnect."""
        self._client.disconnect()
        self._client.loop_stop()

    def _on_publish(self, client: Any, userdata: Any, packet_id: int, reason: Any, properties: Any) -> None:
        if reason.is_failure:
            self.refused_count += 1
        else:
            self.confirmed_count += 1


def publish_all(url: str, readings: Mapping[str, Sequence[Reading]], progress: Callable[[int], None]) -> None:
    """Publish everything and wait until it is confirmed; `progress` receives the count. Raises DemoFailed."""
    place = urlsplit(url)
    devices = [Device(sensor, rows) for sensor, rows in readings.items()]
    try:
        for device in devices:
            device.begin(place.hostname or "", place.port or 0)
        waited_s, confirmed = 0.0, 0
        pause = threading.Event()
        while not all(device.is_done for device in devices):
            pause.wait(LOOK_EVERY_S)
            now = sum(device.confirmed_count for device in devices)
            waited_s = 0.0 if now > confirmed else waited_s + LOOK_EVERY_S
            confirmed = now
            progress(confirmed)
            if waited_s > CONFIRMED_WITHIN_S:
                raise DemoFailed(f"{confirmed} readings are confirmed, and nothing more for {waited_s:.0f} s")
    finally:
        for device in devices:
            device.end()
    progress(sum(device.confirmed_count for device in devices))
    refused = sum(device.refused_count for device in devices)
    if refused:
        raise DemoFailed(f"{refused} readings were refused")
