"""Pages of what is connected and what stays: one client, MQTT sessions, subscriptions, retained messages, listeners."""

import json
from collections.abc import Callable, Iterator
from urllib.parse import quote

import httpx
import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from playwright.sync_api import Page, expect

from support.http.plain import HTTP, plain_client
from support.operations.console_page import answer, go, row
from support.operations.console_traffic import client_of, publish
from support.processes.gateway import GatewayProcess, gateway

pytestmark = [pytest.mark.slow, pytest.mark.interop]

Own = Callable[[str], str]
KEPT_S = 3600


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway(tmp_path_factory.mktemp("connected")) as process:
        yield process


@pytest.fixture
def device(running: GatewayProcess, own: Own) -> Iterator[Client]:
    """Connect an MQTT client whose session stays, with a subscription and a retained message that it published."""
    name = own("sensor")
    client = Client(CallbackAPIVersion.VERSION2, client_id=name, protocol=MQTTProtocolVersion.MQTTv5)
    client.will_set("plant/gone", b"bye", 1)
    wishes = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    wishes.SessionExpiryInterval = KEPT_S
    client.connect("127.0.0.1", running.mqtt_port, properties=wishes)
    client.loop_start()
    client.subscribe(f"{name}/commands", qos=1)
    client.publish(f"{name}/state", json.dumps({"on": True}), qos=1, retain=True).wait_for_publish(30)
    yield client
    client.disconnect()
    client.loop_stop()


def name_of(device: Client) -> str:
    return device._client_id.decode()


def test_pages_say_what_would_be_there(page: Page) -> None:
    """So this test is the first."""
    for path, said in (
        ("clients", "Overview shows how to connect one"),
        ("mqtt-sessions", "Each MQTT client that connects has one"),
        ("retained-messages", "publishes with the retain flag"),
        ("subscriptions", "Clients subscribe when they connect"),
    ):
        go(page, path)
        expect(page.locator("#page")).to_contain_text(said)


def test_a_client_is_shown_with_all_it_agreed_on_and_disconnected(page: Page, device: Client) -> None:
    name = name_of(device)
    go(page, "clients")
    row(page, name).click()
    expect(page.locator("h1")).to_have_text(name)
    for said in ("MQTT 5.0, from 127.0.0.1:", "Session expiry1 h 0 min", "Willplant/gone, 3 B, QoS 1"):
        expect(page.locator("#page")).to_contain_text(said)
    expect(row(page, f"{name}/commands", table="Subscriptions")).to_be_visible()

    device.loop_stop()  # so that it does not come back
    page.get_by_role("button", name="Disconnect").click()
    expect(page.locator("dialog[open]")).to_contain_text("It may connect again at once")
    answer(page, "Disconnect")
    expect(row(page, name)).to_have_count(0)


def test_packets_and_traffic_of_a_client_are_followed_on_its_page(page: Page, device: Client) -> None:
    name = name_of(device)
    go(page, f"clients/{name}")
    expect(page.locator("#page")).to_contain_text("Received from it1 message")
    expect(page.locator("#page")).to_contain_text("packets are shown as they pass, decoded")
    page.get_by_role("button", name="Follow its packets").click()
    expect(row(page, "begun", table="Packets")).to_be_visible()
    device.publish(f"{name}/followed", b"secret", qos=1).wait_for_publish(30)
    expect(row(page, f"topic={name}/followed", table="Packets")).to_be_visible()
    expect(row(page, "PUBACK", table="Packets")).to_be_visible()
    expect(page.locator("#page")).not_to_contain_text("secret")
    expect(page.locator("#page")).to_contain_text("Received from it2 messages")
    expect(page.get_by_role("img", name="Unacknowledged messages: messages 0")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Follow its packets")).to_be_visible()


def test_requests_of_an_http_client_are_followed_on_its_page(page: Page, running: GatewayProcess) -> None:
    with plain_client(running.http_url, timeout=30, limits=httpx.Limits(keepalive_expiry=None)) as client:
        before = http_names(running)
        client.post("/followed", content="first").raise_for_status()
        (name,) = http_names(running) - before
        go(page, f"clients/{quote(name, safe='')}")
        page.get_by_role("button", name="Follow its packets").click()
        expect(row(page, "begun", table="Packets")).to_be_visible()
        client.post("/followed", content="secret", headers={"Cookie": "secret"}).raise_for_status()
        expect(row(page, "method=POST target=/followed", table="Packets")).to_be_visible()
        expect(row(page, "status=200 reason=OK", table="Packets")).to_be_visible()
        expect(page.locator("#page")).to_contain_text("[Cookie: 6 bytes, not shown]")
        expect(page.locator("#page")).not_to_contain_text("secret")


def test_each_connection_of_a_user_is_followed_on_the_page_of_clients(
    page: Page, running: GatewayProcess, device: Client
) -> None:
    """The connections of a program such as curl end with their requests."""
    go(page, "clients")
    page.get_by_role("button", name="Follow a user's packets").click()
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    expect(row(page, name_of(device), table="Packets").first).to_contain_text("begun")
    for number in (1, 2):
        with plain_client(running.http_url, timeout=30) as client:
            client.post(f"/curl{number}", content="secret").raise_for_status()
        shown = row(page, f"method=POST target=/curl{number}", table="Packets")
        expect(shown).to_contain_text("#http/")
    expect(page.locator("#page")).not_to_contain_text("secret")
    page.get_by_label("Username to follow").fill("nobody")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Follow a user's packets")).to_be_visible()


def http_names(running: GatewayProcess) -> set[str]:
    """Return the names of the HTTP clients."""
    clients = HTTP.get(f"{running.admin_url}/clients", timeout=30).json()["clients"]
    return {each["name"] for each in clients if each["protocol"] == "http"}


def test_messages_that_a_client_holds_are_on_its_page(page: Page, running: GatewayProcess, own: Own) -> None:
    queue, name = own("held"), own("worker")
    running.create_queue(queue)
    publish(running, queue, b"1", b"2")
    with client_of(running, name) as client, client.consumer(queue):
        go(page, f"clients/{name}")
        expect(row(page, queue, table="Flows")).to_contain_text("2 of ")
        expect(page.locator("#page")).to_contain_text("2 unacknowledged messages")
        row(page, queue, table="Flows").get_by_role("link", name=queue).click()
        expect(page.locator("h1")).to_have_text(queue)


def test_a_session_stays_while_its_client_is_away_and_is_ended(page: Page, device: Client) -> None:
    name = name_of(device)
    go(page, f"clients/{name}")
    page.get_by_role("link", name="MQTT session", exact=True).click()
    expect(page.locator("#page")).to_contain_text("its client is connected")
    device.disconnect()
    expect(page.locator("#page")).to_contain_text("its client is away since")
    expect(row(page, f"{name}/commands", table="Subscriptions")).to_be_visible()

    go(page, "mqtt-sessions")
    page.get_by_label("Connected or away").select_option("away")
    row(page, name).click()
    page.get_by_role("button", name="End session").click()
    answer(page, "End session")
    expect(page.locator("#notices")).to_contain_text(f"the session of {name} has ended")
    expect(row(page, name)).to_have_count(0)


def test_subscriptions_are_found_by_the_topic_of_a_message(
    page: Page, running: GatewayProcess, device: Client, own: Own
) -> None:
    queue = own("all")
    name = name_of(device)
    running.create_queue(queue, subscriptions=[f"{name}/>"])
    running.create_queue(own("others"), subscriptions=["elsewhere/>"])
    go(page, "subscriptions")
    page.get_by_label("Topic", exact=True).fill(f"{name}/commands")
    expect(page.locator("#page tbody tr")).to_have_count(2)
    expect(row(page, queue)).to_contain_text("queue")
    page.get_by_label("Filter destinations").fill("sensor")
    expect(page.locator("#page tbody tr")).to_have_count(1)
    row(page, name).get_by_role("link", name=name).click()
    expect(page.locator("h1")).to_have_text(name)


def test_a_retained_message_is_read_in_three_forms_and_deleted(page: Page, device: Client) -> None:
    topic = f"{name_of(device)}/state"
    go(page, "retained-messages")
    page.get_by_label("Filter topics").fill("+/state")
    row(page, topic).click()
    payload = page.get_by_label("Payload", exact=True)
    expect(payload).to_have_text('{\n  "on": true\n}')
    for form, said in (("hex", "7b 22 6f 6e"), ("text", '{"on": true}')):
        page.get_by_label("Form of payloads").select_option(form)
        expect(payload).to_contain_text(said)
    page.get_by_role("button", name="Delete").click()
    answer(page, "Delete")
    expect(page.locator("h1")).to_have_text("Retained messages")
    expect(row(page, topic)).to_have_count(0)


def test_listeners_show_their_addresses_and_connections(page: Page, running: GatewayProcess, device: Client) -> None:
    go(page, "listeners")
    expect(row(page, f"mqtt://127.0.0.1:{running.mqtt_port}")).to_contain_text("1 of ")


@pytest.mark.parametrize("path", ["clients/nobody", "mqtt-sessions/nobody", "retained-messages/no%2Ftopic"])
def test_what_is_not_there_has_no_page_to_act_on(page: Page, path: str) -> None:
    go(page, path)
    expect(page.locator("h1")).to_have_text("Not found")
    expect(page.locator("#page button")).to_have_count(0)
