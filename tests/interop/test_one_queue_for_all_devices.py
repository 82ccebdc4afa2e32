"""Devices of every kind publish into one queue, and every message is read back from it."""

import subprocess

import pytest

from support.foreign import mqtt_js
from support.foreign.paho_client import ANSWER_S, MQTT_3_1, MQTT_3_1_1, MQTT_5, PahoClient
from support.network.certificates import Certificates
from support.processes.foreign_programs import program
from support.processes.gateway import GatewayProcess

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(300)]

PAHO = {"3.1": MQTT_3_1, "3.1.1": MQTT_3_1_1, "5.0": MQTT_5}
MOSQUITTO = {"3.1": "mqttv31", "3.1.1": "mqttv311", "5.0": "mqttv5"}
PER_DEVICE = 5


def test_every_message_of_every_device_is_in_the_queue_and_in_order(
    node: GatewayProcess, certificates: Certificates
) -> None:
    authority = certificates.authority
    devices: list[str] = []

    def expected(device: str) -> list[tuple[str, str]]:
        devices.append(device)
        return [(f"devices/{device}", f"{device} says {number}") for number in range(PER_DEVICE)]

    for version, number in PAHO.items():
        for transport, tls, port in (
            ("tcp", False, node.mqtt_port),
            ("tcp", True, node.tls_port),
            ("websockets", False, node.ws_port),
            ("websockets", True, node.wss_port),
        ):
            device = f"paho {version} {transport} {'TLS' if tls else 'plain'}"
            with PahoClient(
                "device", version=number, transport=transport, authority=authority if tls else None
            ) as paho:
                paho.connect(port)
                for topic, payload in expected(device):
                    paho.publish(topic, payload.encode(), 1)
        for tls in (False, True):
            address = ["-p", str(node.tls_port), "--cafile", str(authority)] if tls else ["-p", str(node.mqtt_port)]
            command = [program("mosquitto_pub"), "-V", MOSQUITTO[version], "-h", "127.0.0.1", *address, "-q", "1", "-l"]
            device = f"mosquitto {version} {'TLS' if tls else 'plain'}"
            lines = "".join(f"{payload}\n" for _, payload in expected(device))
            subprocess.run([*command, "-t", f"devices/{device}"], input=lines, text=True, check=True, timeout=ANSWER_S)
        for scheme in ("mqtt", "mqtts", "ws", "wss"):
            url = node.mqtt_url(scheme)
            trust = {"ca": authority.read_text()} if scheme in ("mqtts", "wss") else {}
            messages = [(topic, payload, {"qos": 1}) for topic, payload in expected(f"mqtt.js {version} {scheme}")]
            mqtt_js.publish(url, version, messages, **trust)

    received: dict[str, list[str]] = {}
    with PahoClient("reader") as reader:
        reader.connect(node.mqtt_port)
        reader.subscribe("$queue/devices", 1)
        for _ in range(len(devices) * PER_DEVICE):
            message = reader.next()
            received.setdefault(message.topic.removeprefix("devices/"), []).append(message.payload.decode())
        reader.receives_nothing_more()
    assert received == {device: [f"{device} says {number}" for number in range(PER_DEVICE)] for device in devices}
