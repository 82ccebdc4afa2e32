"""What the console shows of a message: all that its protocol carries, whichever that is."""

from collections.abc import Iterator

import pytest
from paho.mqtt.client import Client, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from playwright.sync_api import Page, expect
from proton import Message
from proton.utils import BlockingConnection

from support.operations.console_page import WAIT_MS, go, row
from support.operations.console_traffic import client_of, wait_until_held
from support.processes.gateway import GatewayProcess, gateway

pytestmark = [pytest.mark.slow, pytest.mark.interop]
LONG = "a-value-without-a-place-to-break-it-" * 20


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway(tmp_path_factory.mktemp("console")) as process:
        process.create_queue("invoices", subscriptions=["plant/>"])
        yield process


def opened(page: Page, text: str) -> dict[str, str]:
    """Open the message that has a text, and return what its details name."""
    go(page, "queues/invoices/messages")
    row(page, text).click()
    expect(page.locator(".details")).to_be_visible(timeout=WAIT_MS)
    pairs: list[tuple[str, str]] = page.locator(".details .facts > div").evaluate_all(
        "lines => lines.map(line => [...line.children].map(part => part.textContent))"
    )
    return dict(pairs)


def test_a_message_of_amqp_shows_its_properties(page: Page, running: GatewayProcess) -> None:
    sent = Message(
        body="amqp invoice", durable=True, id="inv-1", correlation_id="req-9", reply_to="answers", priority=7,
        content_type="text/plain", group_id="customer-7", reply_to_group_id="desk-2", ttl=3600.0,
        properties={"region": "eu", "price": 12.5, "note": LONG},
    )  # fmt: skip
    connection = BlockingConnection(f"127.0.0.1:{running.amqp_port}")
    connection.create_sender("invoices").send(sent)
    connection.close()
    wait_until_held(running, {"invoices": 1})
    shown = opened(page, "amqp invoice")
    expected = {
        "partition key": "customer-7", "message ID": "inv-1", "correlation ID": "req-9", "priority": "7",
        "content type": "text/plain", "reply-to group ID": "desk-2", "region": "eu", "price": "12.5", "note": LONG,
    }  # fmt: skip
    assert {name: shown[name] for name in expected} == expected
    assert "answers" in shown["reply to"]
    assert shown["expires"] != "never"
    details = page.locator(".details")
    assert details.evaluate("place => place.scrollWidth <= place.clientWidth"), "the long value wraps"


def test_a_message_of_mqtt_that_was_redelivered_shows_its_properties(page: Page, running: GatewayProcess) -> None:
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # paho has no types here
    properties.UserProperty = [("unit", "K"), ("unit", "bar")]
    properties.CorrelationData = b"\xff1"
    properties.ContentType = "application/json"
    probe = Client(CallbackAPIVersion.VERSION2, client_id="probe-7", protocol=MQTTv5)
    probe.connect("127.0.0.1", running.mqtt_port)
    probe.loop_start()
    probe.publish("plant/7", "{}", qos=1, properties=properties).wait_for_publish(WAIT_MS / 1000)
    probe.disconnect()
    probe.loop_stop()
    wait_until_held(running, {"invoices": 2})
    with client_of(running, "worker") as client, client.consumer("invoices") as consumer:
        consumer.receive_many(2, timeout_s=WAIT_MS / 1000)
    with client_of(running, "worker") as client, client.consumer("invoices") as consumer:
        consumer.receive_many(2, timeout_s=WAIT_MS / 1000)
        shown = opened(page, "plant/7")
    expected = {
        "publisher": "probe-7", "QoS": "1 (at least once)", "content type": "application/json",
        "correlation ID": r"\xff1", "priority": "4", "expires": "never",
        "deliveries": "2, redelivered 1 time",
    }  # fmt: skip
    assert {name: shown[name] for name in expected} == expected
    user_properties = page.locator(".details .facts").last.locator("dd")
    expect(user_properties).to_have_text(["K", "bar"])
