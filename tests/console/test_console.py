"""The console in a browser, over a real gateway with real messages."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Locator, Page, Route, expect

import sluicegate
from support.operations.console_page import WAIT_MS, answer, fill_in, go, row
from support.operations.console_traffic import client_of, publish, wait_until_held
from support.processes.gateway import GatewayProcess, gateway

pytestmark = [pytest.mark.slow, pytest.mark.interop]
Own = Callable[[str], str]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway(tmp_path_factory.mktemp("console")) as process:
        process.create_queue("wide-queue", subscriptions=["wide"], partition_count=3, access_type="non-exclusive")
        yield process


def message(page: Page, message_id: str) -> Locator:
    """Return the row of a message."""
    return page.locator(f'tr[data-key="{message_id}"]')


def test_the_overview_shows_queues_and_connections_as_they_change(
    page: Page, running: GatewayProcess, own: Own
) -> None:
    name = own("at-a-glance")
    running.create_queue(name)
    publish(running, name, b"1")
    queue = row(page, name, table="Busiest queues")
    expect(queue.locator("td").nth(4)).to_have_text("1")
    expect(page.locator("#state")).to_have_text("live")

    with client_of(running, "seen"):
        publish(running, name, b"2", b"3")
        expect(queue.locator("td").nth(4)).to_have_text("3")
        expect(row(page, "flow", table="Protocols").locator("td").nth(1)).to_have_text("1")


def test_a_queue_is_made_looked_at_and_deleted(page: Page, running: GatewayProcess, own: Own) -> None:
    name = own("eu/orders")
    go(page, "queues")
    page.get_by_role("button", name="New queue").click()
    answer(page, "Create", name=name, partition_count="4", subscriptions="orders/eu/>")

    expect(page.locator("h1")).to_have_text(name)
    expect(page.get_by_role("table", name="Partitions").locator("tbody tr")).to_have_count(4)
    expect(page.locator("#page")).to_contain_text("orders/eu/>")
    with client_of(running, "worker-9") as client, client.consumer(name):
        expect(page.get_by_role("table", name="Flows")).to_contain_text("worker-9")

    page.get_by_role("button", name="Delete queue").click()
    answer(page, "Delete")
    expect(page.locator("#notices")).to_contain_text(f"{name} was deleted")
    expect(page.locator("h1")).to_have_text("Queues")
    expect(row(page, name)).to_have_count(0)


def test_a_queue_is_made_with_the_access_type_that_was_chosen(page: Page, own: Own) -> None:
    go(page, "queues")
    page.get_by_role("button", name="New queue").click()
    page.locator("dialog[open] [name=access_type]").select_option("non-exclusive")
    answer(page, "Create", name=own("shared"))
    expect(page.locator("#page")).to_contain_text("durable, non-exclusive")


ABSENT = (
    *("queues/nowhere", "queues/nowhere/messages", "bridges/nowhere", "rest-delivery-points/nowhere", "nowhere"),
    *("clients/nowhere", "mqtt-sessions/nowhere", "retained-messages/nowhere", "network/nowhere"),
    *("message-vpns/nowhere", "users/nowhere", "queues/wide-queue/nowhere", "templates/nowhere"),
)


@pytest.mark.parametrize("path", ABSENT)
def test_what_there_is_not_has_no_page_to_act_on(page: Page, path: str) -> None:
    go(page, path)
    expect(page.locator("h1")).to_have_text("Not found")
    expect(page.locator("#page")).to_contain_text("nowhere")
    expect(page.locator("#page button")).to_have_count(0)
    page.keyboard.press("?")
    expect(page.locator("dialog[open]")).to_contain_text("next row")
    expect(page.locator("dialog[open]")).not_to_contain_text("edit")
    page.keyboard.press("Escape")
    page.locator("#page").get_by_role("link", name="Overview").click()
    expect(page.get_by_role("table", name="Busiest queues")).to_be_visible()


def test_escape_leads_from_what_there_is_not_to_the_overview(page: Page) -> None:
    go(page, "nowhere")
    expect(page.locator("h1")).to_have_text("Not found")
    page.keyboard.press("Escape")
    expect(page.get_by_role("table", name="Busiest queues")).to_be_visible()


def test_every_page_is_in_sight(page: Page) -> None:
    links = page.locator("#pages a:visible")
    expect(links).to_have_count(21)
    for link in links.all():
        expect(link).to_be_in_viewport()


def test_messages_are_opened_moved_copied_and_deleted(page: Page, running: GatewayProcess, own: Own) -> None:
    origin, target = own("from"), own("moved-to")
    for name in (origin, target):
        running.create_queue(name)
    publish(running, origin, b"first", b"<b>second</b>", b"third")
    go(page, f"queues/{origin}/messages")

    message(page, "0:2").click()
    expect(page.locator(".details pre")).to_have_text("<b>second</b>")
    expect(page.locator(".details")).to_contain_text("customer-7")

    message(page, "0:1").locator("input").check()
    page.get_by_role("button", name="Move").click()
    answer(page, "Move", to=target)
    expect(message(page, "0:1")).to_have_count(0)
    wait_until_held(running, {origin: 2, target: 1})

    message(page, "0:2").locator("input").check()
    page.get_by_role("button", name="Copy").click()
    answer(page, "Copy", to=target)
    expect(page.locator("#notices")).to_contain_text("1 copied")
    expect(message(page, "0:2").locator("input")).not_to_be_checked()
    wait_until_held(running, {origin: 2, target: 2})

    page.get_by_role("button", name="All on this page").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    answer(page, "Delete")
    expect(page.locator("#page")).to_contain_text("No messages.")
    wait_until_held(running, {origin: 0})


def test_dead_messages_are_driven_back(page: Page, running: GatewayProcess, own: Own) -> None:
    work, graveyard = own("work"), own("graveyard")
    running.create_queue(graveyard)
    running.create_queue(work, dead_msg_queue=graveyard)
    publish(running, work, b"hard")
    with client_of(running, "rejecter") as client, client.consumer(work) as consumer:
        consumer.receive_many(1, timeout_s=WAIT_MS / 1000)[0].reject()
        go(page, f"queues/{graveyard}/messages")
        expect(row(page, "rejected")).to_be_visible()

    go(page, f"queues/{graveyard}")
    page.get_by_role("button", name="Re-drive").click()
    fill_in(page, "Re-drive", rate="ten")
    expect(page.locator("dialog[open]").get_by_role("alert")).to_contain_text("'ten' is not allowed")
    answer(page, "Re-drive", rate="10")

    expect(page.locator(".redrive")).to_contain_text("done, 1 done")
    wait_until_held(running, {graveyard: 0, work: 1})


def test_messages_are_searched_by_key_and_time(page: Page, running: GatewayProcess, own: Own) -> None:
    name = own("searched")
    running.create_queue(name, partition_count=2, access_type="non-exclusive")
    publish(running, name, b"1", b"2")  # with the key customer-7
    with client_of(running, "other") as client, client.publisher() as publisher:
        publisher.send_all([sluicegate.Message(b"3", queue=name, key="customer-8")])
        publisher.flush()
    go(page, f"queues/{name}/messages")
    rows = page.locator("#page tbody tr")
    expect(rows).to_have_count(3)
    page.get_by_label("Key", exact=True).fill("customer-8")
    page.keyboard.press("Enter")
    expect(rows).to_have_count(1)
    expect(page.locator("#page")).to_contain_text("1 message found, 3 examined")
    page.get_by_role("button", name="Clear").click()
    expect(rows).to_have_count(3)
    page.get_by_label("until").fill("2001-01-01T00:00:00")
    page.get_by_label("until").press("Tab")
    expect(rows).to_have_count(0)
    expect(page.locator("#page")).to_contain_text("0 messages found, 3 examined")


def test_messages_are_published_again_and_dead_ones_brought_back(page: Page, running: GatewayProcess, own: Own) -> None:
    work, graveyard = own("worked"), own("dead")
    running.create_queue(graveyard)
    running.create_queue(work, dead_msg_queue=graveyard)
    publish(running, work, b"hard", b"harder")
    with client_of(running, "rejecter") as client, client.consumer(work) as consumer:
        for each in consumer.receive_many(2, timeout_s=WAIT_MS / 1000):
            each.reject()
        go(page, f"queues/{graveyard}/messages")
        expect(row(page, "rejected")).to_have_count(2)

    row(page, "harder").locator("input").check()
    page.get_by_role("button", name="Bring back").click()
    answer(page, "Bring back")
    expect(row(page, "rejected")).to_have_count(1)
    wait_until_held(running, {work: 1})

    row(page, "hard").locator("input").check()
    page.get_by_role("button", name="Republish").click()
    answer(page, "Republish", remove="delete them here when they are safe")
    expect(page.locator("#notices")).to_contain_text("1 published again")
    expect(page.locator("#page")).to_contain_text("No messages.")
    go(page, f"queues/{work}/messages")
    expect(row(page, "hard")).to_have_count(2)
    row(page, "hard").first.locator("input").check()
    expect(page.get_by_role("button", name="Bring back")).to_be_disabled()


def test_a_definition_is_edited_and_what_it_may_not_be_stays_in_the_form(
    page: Page, running: GatewayProcess, own: Own
) -> None:
    name = own("edited")
    running.create_queue(name, subscriptions=["a/b"])
    go(page, f"queues/{name}")
    page.get_by_role("button", name="Edit").click()
    fill_in(page, "Change", max_msg_size="none", permission="delete", subscriptions="a/b\nc d/>")
    expect(page.locator("dialog[open]").get_by_role("alert")).to_contain_text("max_msg_size")

    answer(page, "Change", max_msg_size="1000", respect_ttl_enabled="true")

    changed = running.queue(name)
    assert changed["subscriptions"] == ["a/b", "c d/>"]
    config = changed["config"]
    assert isinstance(config, dict)
    wanted = {"max_msg_size": 1000, "permission": "delete", "respect_ttl_enabled": True}
    assert {each: config[each] for each in wanted} == wanted
    expect(page.locator("#page")).to_contain_text("c d/>")


def test_templates_are_made_changed_and_deleted(page: Page, running: GatewayProcess, own: Own) -> None:
    name, folder = own("small"), own("eu")
    go(page, "templates")
    page.get_by_role("button", name="New template").click()
    answer(page, "Create", name=name, queue_name_filter=f"{folder}/*", max_msg_size="500", permission="consume")
    expect(row(page, name)).to_contain_text("maximum message size: 500 B")

    row(page, name).click()
    answer(page, "Change", max_msg_size="", max_redelivery_count="3")
    expect(row(page, name)).to_contain_text("maximum redelivery count: 3")
    expect(row(page, name)).not_to_contain_text("maximum message size")
    running.create_queue(f"{folder}/orders")
    go(page, f"queues/{folder}%2Forders")
    expect(page.locator(".facts.many").last).to_contain_text("maximum redelivery count3")

    go(page, "templates")
    row(page, name).get_by_role("button", name="Delete").click()
    answer(page, "Delete")
    expect(row(page, name)).to_have_count(0)


def test_kept_messages_are_replayed(page: Page, running: GatewayProcess, own: Own) -> None:
    name = own("kept")
    running.create_queue(name, retention_time_s=3600)
    publish(running, name, b"1", b"2")
    with client_of(running, "reader") as client, client.consumer(name) as consumer:
        for _ in range(2):
            consumer.receive_many(1, timeout_s=WAIT_MS / 1000)[0].accept()
        wait_until_held(running, {name: 0})
    go(page, f"queues/{name}")
    expect(page.locator("#page")).to_contain_text("kept for replay")
    page.get_by_role("button", name="Replay").click()
    fill_in(page, "Replay", to="the third")
    expect(page.locator("dialog[open]").get_by_role("alert")).to_contain_text("'the third' is not allowed")
    answer(page, "Replay", **{"from": "2", "to": ""})
    expect(page.locator("#notices")).to_contain_text(f"1 message of {name} will be delivered again")
    wait_until_held(running, {name: 1})


def test_refusals_of_the_gateway_are_shown_in_its_words(page: Page, running: GatewayProcess, own: Own) -> None:
    name = own("mine")
    running.create_queue(name)
    publish(running, name, b"x")
    go(page, f"queues/{name}/messages")
    message(page, "0:1").locator("input").check()
    page.keyboard.press("m")
    fill_in(page, "Move", to="nowhere")

    expect(page.locator("dialog[open]").get_by_role("alert")).to_contain_text("nowhere")
    wait_until_held(running, {name: 1})
    page.keyboard.press("Escape")
    expect(page.locator("dialog[open]")).to_have_count(0)
    go(page, "queues/none-of-that-name")
    expect(page.locator("#page")).to_contain_text("none-of-that-name")
    page.evaluate("location.hash = '#/queues/100%'")  # as somebody types it
    expect(page.locator("#page")).to_contain_text("there is no queue '100%'")


def test_clients_actors_events_and_explanations_are_shown(page: Page, running: GatewayProcess, own: Own) -> None:
    name = own("explained")
    running.create_queue(name, subscriptions=["plant/>"])
    with client_of(running, "worker-3"):
        go(page, "clients")
        expect(row(page, "worker-3")).to_contain_text("flow")
    expect(row(page, "worker-3")).to_have_count(0)
    go(page, "actors")
    expect(row(page, "WriterThread").or_(row(page, "spool")).first).to_be_visible()
    go(page, "events")
    expect(row(page, "SYSTEM_STARTUP_COMPLETE")).to_be_visible()
    go(page, "explain")
    page.locator("form input[name=topic]").fill("plant/7/temperature")
    page.keyboard.press("Enter")
    expect(row(page, name)).to_contain_text("spooled")
    page.locator("form >> nth=1 >> input[name=queue]").fill(name)
    page.locator("form >> nth=1 >> input[name=key]").fill("customer-7")
    page.keyboard.press("Enter")
    expect(page.locator(".answer .facts")).to_contain_text("key hash")


def test_everything_can_be_reached_with_the_keyboard(page: Page, running: GatewayProcess, own: Own) -> None:
    keys = own("key")
    first, second = f"{keys}-a", f"{keys}-b"
    for name in (first, second):
        running.create_queue(name)
    publish(running, second, b"pressed")
    expect(page.locator("h1")).not_to_have_text("Overview")  # the node's name is there: it has looked
    page.keyboard.press("?")
    expect(page.locator("dialog[open]")).to_contain_text("next row")
    page.keyboard.press("Escape")
    expect(page.locator("dialog[open]")).to_have_count(0)

    page.keyboard.press("2")
    expect(page.locator("h1")).to_have_text("Queues")
    page.keyboard.press("/")
    page.keyboard.type(f"{keys}-*")
    expect(page.locator("#page tbody tr")).to_have_count(2)
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text(second)
    expect(page.get_by_role("button", name="Purge")).to_be_enabled()
    page.keyboard.press("m")
    expect(row(page, "pressed")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator("#page")).to_contain_text("1 selected")
    page.keyboard.press("Delete")
    answer(page, "Delete")
    expect(page.locator("#page")).to_contain_text("No messages.")
    page.keyboard.press("Escape")
    expect(page.locator("h1")).to_have_text(second)
    wait_until_held(running, {second: 0})


def test_the_link_of_a_row_is_followed_with_the_keyboard(page: Page, running: GatewayProcess, own: Own) -> None:
    name, worker = own("linked"), own("reader")
    running.create_queue(name)
    with client_of(running, worker) as client, client.consumer(name):
        go(page, f"queues/{name}")
        row(page, worker, table="Flows").focus()
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text(worker)
        row(page, name, table="Flows").focus()
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text(name)


def test_a_message_that_is_opened_with_the_keyboard_has_the_focus_and_gives_it_back(
    page: Page, running: GatewayProcess, own: Own
) -> None:
    name = own("read")
    running.create_queue(name)
    publish(running, name, b"first", b"second")
    go(page, f"queues/{name}/messages")
    expect(row(page, "second")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator(".details")).to_be_focused()
    expect(page.locator(".details pre")).to_have_text("second")
    page.keyboard.press("Tab")
    expect(page.locator(".details").get_by_role("button", name="Close")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(".details")).to_be_hidden()
    expect(row(page, "second")).to_be_focused()


def test_a_page_that_is_asked_for_while_the_console_begins_opens_once_it_has(page: Page) -> None:
    """It was opened twice, and what was typed in between was lost."""
    held: list[Route] = []
    page.route("**/account", lambda route: held.append(route))
    with page.expect_request("**/account"):
        page.reload()
    go(page, "queues")
    expect(page.locator("#page h1")).to_have_count(0)
    held[0].continue_()
    expect(page.locator("#page h1")).to_have_text("Queues")
