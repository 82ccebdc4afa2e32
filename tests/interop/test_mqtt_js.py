"""mqtt.js: 3.1, 3.1.1 and 5.0, over TCP, TLS and WebSocket."""

import pytest

from support.foreign import mqtt_js
from support.network.certificates import Certificates
from support.processes.gateway import GatewayProcess, wait_until

pytestmark = [pytest.mark.interop]
each_version = pytest.mark.parametrize("version", mqtt_js.VERSIONS)


@each_version
@pytest.mark.parametrize("scheme", ["mqtt", "mqtts", "ws", "wss"])
def test_messages_of_every_qos_arrive_over_every_transport(
    node: GatewayProcess, certificates: Certificates, topic: str, version: str, scheme: str
) -> None:
    url = node.mqtt_url(scheme)
    trust = {"ca": certificates.authority.read_text()} if scheme in ("mqtts", "wss") else {}
    with mqtt_js.subscribed(url, version, f"{topic}/+", 2, 3, **trust) as subscriber:
        mqtt_js.publish(url, version, [(f"{topic}/{qos}", f"at {qos}", {"qos": qos}) for qos in (0, 1, 2)], **trust)
        received = {(each["topic"], each["payload"], each["qos"], each["retain"]) for each in subscriber.messages()}
    assert received == {(f"{topic}/{qos}", f"at {qos}", qos, False) for qos in (0, 1, 2)}


def test_properties_of_version_5_arrive(node: GatewayProcess, topic: str) -> None:
    url = f"mqtt://127.0.0.1:{node.mqtt_port}"
    properties = {"contentType": "text/plain", "userProperties": {"colour": ["red", "blue"], "size": "1"}}
    with mqtt_js.subscribed(url, "5.0", topic, 1, 1) as subscriber:
        mqtt_js.publish(url, "5.0", [(topic, "x", {"qos": 1, "properties": properties})])
        (received,) = subscriber.messages()
    assert received["content_type"] == "text/plain"
    assert received["user_properties"] == {"colour": ["red", "blue"], "size": "1"}


@each_version
def test_a_queue_is_consumed(node: GatewayProcess, topic: str, version: str) -> None:
    url = f"mqtt://127.0.0.1:{node.mqtt_port}"
    name = f"js-{version}"
    node.create_queue(name, subscriptions=[f"{topic}/>"])
    mqtt_js.publish(url, version, [(f"{topic}/x", str(number), {"qos": 1}) for number in range(10)])
    with mqtt_js.subscribed(url, version, f"$queue/{name}", 1, 10) as subscriber:
        received = subscriber.messages()
    assert [each["payload"] for each in received] == [str(number) for number in range(10)]
    wait_until(lambda: node.held_count(name) == 0, within_s=mqtt_js.ANSWER_S, what="the queue to be empty")
