"""Publishing from the console, and topics that it watches."""

import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from support.operations.console_page import WAIT_MS, go, row
from support.operations.console_traffic import wait_until_held
from support.processes import programs
from support.processes.foreign_programs import program
from support.processes.gateway import GatewayProcess, gateway, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.interop]

Own = Callable[[str], str]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway(tmp_path_factory.mktemp("publishing")) as process:
        yield process


def send(page: Page, destination: str, payload: str = "", **options: str) -> None:
    """Fill in the form and publish."""
    form = page.get_by_role("form", name="Publish")
    form.get_by_label("Topic or queue").fill(destination)
    form.get_by_label("Payload", exact=True).fill(payload)
    if options:
        form.locator("details").evaluate("place => { place.open = true }")
    for name, value in options.items():
        field = form.locator(f"[name={name}]")
        if field.evaluate("place => place.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)
    form.get_by_role("button", name="Publish").click()


def wait_for_watchers(page: Page, number: int) -> None:
    page.wait_for_function(
        "number => fetch('../smrp/subscriptions?destination_name=watcher-*').then((answer) => answer.json())"
        ".then((found) => found.total_count === number)",
        arg=number,
    )


def follow(process: GatewayProcess, subscribe: str, publish_it: str) -> str:
    """Run two commands of the first steps as written; return what the first one prints."""
    wait_s = WAIT_MS / 1000
    here, there = (shlex.split(each.replace("python3 ", f"{sys.executable} ", 1)) for each in (subscribe, publish_it))
    with programs.running([program(here[0]), *here[1:]]) as subscriber:
        wait_until(lambda: "hello/#" in process.leads_to("hello/world"), within_s=wait_s, what=subscribe)
        subprocess.run([program(there[0]), *there[1:]], check=True, timeout=wait_s)
        lines = _first_lines(subscriber)
        wait_until(lambda: lines != [], within_s=wait_s, what=f"a line of {subscribe}")
        printed = lines[0]
    wait_until(lambda: "hello/#" not in process.leads_to("hello/world"), within_s=wait_s, what="it to leave")
    return printed


def _first_lines(process: "subprocess.Popen[str]") -> list[str]:
    """Return a list that gets the first line that a program prints."""
    stdout = process.stdout
    assert stdout is not None
    lines: list[str] = []
    threading.Thread(target=lambda: lines.append(stdout.readline()), daemon=True).start()
    return lines


def test_the_first_steps_stay_hidden_in_a_browser_without_storage(page: Page) -> None:
    """So it is before a message was published. Steps that are not hidden ask for the listeners."""
    page.add_init_script("Object.defineProperty(window, 'localStorage', { get() { throw new Error('none') } })")
    page.reload()
    page.get_by_role("region", name="First steps").get_by_role("button", name="Hide").click()
    go(page, "queues")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    go(page, "")
    expect(page.get_by_role("table", name="Busiest queues")).to_be_visible()
    assert asked
    assert not [each for each in asked if "/listeners" in each]


def test_an_empty_broker_shows_the_first_steps_until_there_is_a_message(page: Page, running: GatewayProcess) -> None:
    """So this test comes before the others that publish. The commands have the broker's own addresses."""
    steps = page.get_by_role("region", name="First steps")
    expect(steps).to_contain_text(f"--host 127.0.0.1 --port {running.mqtt_port} --topic 'hello/#'")
    page.get_by_label("Client", exact=True).select_option("HTTP: curl")
    expect(steps).to_contain_text(f"-d 'first message' {running.http_url}/TOPIC/hello/world")

    steps.get_by_role("button", name="Hide").click()
    expect(steps).to_be_hidden()
    page.reload()
    expect(page.get_by_role("table", name="Busiest queues")).to_be_visible()
    expect(steps).to_be_hidden()

    page.evaluate("() => localStorage.clear()")
    page.reload()
    expect(steps).to_be_visible()
    commands = []
    for way in ("MQTT: mosquitto_sub and mosquitto_pub", "MQTT: Python with Eclipse Paho", "HTTP: curl"):
        page.get_by_label("Client", exact=True).select_option(way)
        commands.append(steps.locator("code").all_text_contents())
    for subscribe, publish_it in commands:
        assert "first message" in follow(running, subscribe, publish_it)
    expect(steps).to_contain_text("The broker has carried its first message")
    page.reload()
    expect(page.get_by_role("table", name="Busiest queues")).to_be_visible()
    expect(steps).to_be_hidden()


def test_a_message_is_published_and_seen_by_who_watches(page: Page, running: GatewayProcess, own: Own) -> None:
    topic, queue = own("orders"), own("kept")
    running.create_queue(queue, subscriptions=[f"{topic}/>"])
    go(page, "publish")
    expect(page.locator("#page")).to_contain_text("Give a topic filter and press Watch")
    page.get_by_label("Topic filter").fill(f"{topic}/#")
    page.get_by_label("Topic filter").press("Enter")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    wait_for_watchers(page, 1)

    send(page, f"{topic}/eu", '{"n": 7}', key="customer-7", properties="amount=12\nrush=true", content_type="text/x")
    expect(page.locator(".card")).to_contain_text("1 message published")
    seen = row(page, f"{topic}/eu", table="Watched messages")
    expect(seen).to_contain_text("customer-7")
    page.get_by_label("Form of payloads").first.select_option("hex")
    expect(seen).to_contain_text("7b 22 6e")
    seen.click()
    details = page.locator(".details")
    for said in ("Property amount12", "Property rushtrue", "Content typetext/x", "Publisheradmin"):
        expect(details).to_contain_text(said)
    page.keyboard.press("Escape")
    expect(details).to_be_hidden()

    page.get_by_role("button", name="Hold").click()
    send(page, f"{topic}/us", "held")
    expect(page.locator("#page")).to_contain_text("held, 2 messages")
    expect(row(page, f"{topic}/us", table="Watched messages")).to_have_count(0)
    page.get_by_role("button", name="Go on").click()
    expect(row(page, f"{topic}/us", table="Watched messages")).to_be_visible()
    page.get_by_role("button", name="Clear").click()
    expect(row(page, topic, table="Watched messages")).to_have_count(0)

    go(page, f"queues/{queue}/messages")
    expect(row(page, f"{topic}/eu")).to_contain_text("customer-7")
    wait_for_watchers(page, 0)  # whoever leaves the page watches no more


def test_messages_go_to_a_queue_in_copies_and_why_not_is_said(page: Page, running: GatewayProcess, own: Own) -> None:
    queue = own("target")
    running.create_queue(queue)
    go(page, "publish")
    page.locator("[name=to]").select_option("queue")
    send(page, queue, "x", count="5")
    expect(page.locator(".card")).to_contain_text("5 messages published")
    wait_until_held(running, {queue: 5})
    send(page, "nowhere", "x", count="1")
    expect(page.locator(".card .wrong")).to_contain_text("1 not published: 400 Queue Not Found")
    page.locator("[name=to]").select_option("topic")
    send(page, own("nobody"), "x")
    expect(page.locator(".card")).to_contain_text("nobody subscribes to the topic")
    send(page, "a/#", "x")
    expect(page.locator(".notice.wrong")).to_contain_text("topic")


def test_a_wrong_filter_is_said_to_be_one(page: Page) -> None:
    go(page, "publish")
    page.get_by_label("Topic filter").fill("a/+/#/b")
    page.get_by_role("button", name="Watch", exact=True).click()
    expect(page.locator(".notice.wrong")).to_contain_text("topic")
    expect(page.get_by_role("button", name="Watch", exact=True)).to_be_visible()


def test_a_published_message_is_retained(page: Page, own: Own) -> None:
    topic = own("lamp")
    go(page, "publish")
    send(page, f"{topic}/state", "on", retain="true")
    expect(page.locator(".card")).to_contain_text("published")
    go(page, "retained-messages")
    expect(row(page, f"{topic}/state")).to_contain_text("admin")
