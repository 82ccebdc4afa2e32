"""The console while things change: a gateway restart, another operator, slow replies and actions."""

import re
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from playwright.sync_api import Page, Route, expect

import sluicegate
from support.http.plain import HTTP
from support.operations.console_page import WAIT_MS, answer, fill_in, go, row
from support.operations.console_traffic import client_of
from support.processes.gateway import GatewayProcess, gateway

pytestmark = [pytest.mark.slow, pytest.mark.interop]

Own = Callable[[str], str]

PAGE = 100  # messages that the console shows at once
RATE_OF_A_NODE_THAT_BEGAN_ANEW = """async () => {
    const { Rates } = await import("/console/api/rates.js");
    const rates = new Rates();
    for (const [total, atMs] of [[10, 5000], [12, 6000], [1, 100]]) rates.add("in", total, atMs);
    return rates.add("in", 9, 1100);
}"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway(tmp_path_factory.mktemp("changing"), vpns__sales__enabled=True) as process:
        yield process


def publish_pages(running: GatewayProcess, queue: str) -> None:
    """Bring one message more than a page into a queue, all of one key."""
    with client_of(running, "feeder") as client, client.publisher() as publisher:
        publisher.send_all([sluicegate.Message(b"x", queue=queue, key="one") for _ in range(PAGE + 1)])
        publisher.flush()


def hold(page: Page, url: re.Pattern[str]) -> list[Route]:
    """Have requests wait from now on; return a list of those that do."""
    held: list[Route] = []

    def keep(route: Route) -> None:
        held.append(route)

    page.route(url, keep)
    return held


def test_events_and_rates_go_on_when_the_gateway_begins_anew(page: Page, running: GatewayProcess) -> None:
    """Its numbers and its clock may begin anew as well, on another machine; what happened before stays to be seen."""
    go(page, "events")
    started = row(page, "SYSTEM_STARTUP_COMPLETE")
    expect(started).to_have_count(1)
    running.restart()
    expect(started).to_have_count(2)
    assert page.evaluate(RATE_OF_A_NODE_THAT_BEGAN_ANEW) == 8


def test_an_open_page_says_that_the_gateway_is_gone_and_goes_on_when_it_is_back(
    page: Page, running: GatewayProcess, own: Own
) -> None:
    name = own("stays")
    running.create_queue(name)
    state = page.locator("#state")
    go(page, f"queues/{name}")
    expect(state).to_have_text("live")
    page.context.set_offline(True)
    expect(state).to_have_text("no answer: the gateway cannot be reached")
    expect(page.locator("h1")).to_have_text(name)
    go(page, "queues")
    expect(page.get_by_role("button", name="New queue")).to_be_disabled()
    page.context.set_offline(False)
    expect(state).to_have_text("live")
    expect(row(page, name)).to_be_visible()
    expect(page.get_by_role("button", name="New queue")).to_be_enabled()


def test_a_redrive_of_another_operator_is_shown(page: Page, running: GatewayProcess, own: Own) -> None:
    name = own("graveyard")
    running.create_queue(name)
    go(page, f"queues/{name}")
    expect(page.locator("#state")).to_have_text("live")
    expect(page.locator(".redrive")).to_be_hidden()
    told = running.command("queue", "redrive", name)
    assert told.returncode == 0, told.stderr
    expect(page.locator(".redrive")).to_contain_text("done")


def test_the_next_page_leaves_no_message_out(page: Page, running: GatewayProcess, own: Own) -> None:
    """Of one partition, and of all: a position names a partition and a sequence there."""
    name = own("wide")
    running.create_queue(name, partition_count=3, access_type="non-exclusive")
    publish_pages(running, name)
    go(page, f"queues/{name}/messages")
    rows = page.locator("#page tbody tr")
    expect(rows).to_have_count(PAGE)
    turn = page.get_by_role("button", name="Next page")
    expect(turn).to_be_enabled()
    turn.click()
    expect(rows).to_have_count(1)
    page.get_by_role("button", name="First page").click()
    expect(rows).to_have_count(PAGE)

    partition = (rows.first.get_attribute("data-key") or "").partition(":")[0]
    page.get_by_label("Partition", exact=True).fill(partition)
    page.keyboard.press("Enter")
    expect(turn).to_be_enabled()
    turn.click()
    expect(rows).to_have_count(1)


def test_a_late_answer_does_not_turn_the_page_back(page: Page, running: GatewayProcess, own: Own) -> None:
    name = own("long")
    running.create_queue(name)
    publish_pages(running, name)
    go(page, f"queues/{name}/messages")
    rows = page.locator("#page tbody tr")
    expect(rows).to_have_count(PAGE)
    first = hold(page, re.compile("/search.*position=0%3A0"))
    with page.expect_request(re.compile("/search.*position=0%3A0")):
        pass  # the look that comes late
    page.get_by_role("button", name="Next page").click()
    expect(rows).to_have_count(1)

    hold(page, re.compile("/search"))  # nothing comes any more that could make good for it
    with page.expect_response(re.compile("position=0%3A0")) as late:
        first[0].fulfill(response=first[0].fetch())
    late.value.finished()
    page.evaluate("() => new Promise(requestAnimationFrame)")
    expect(rows).to_have_count(1)


OBJECTS: Final = (
    *("queues/waited-for", "queues/waited-for/messages", "clients/waited-for", "message-vpns/waited-for"),
    *("bridges/waited-for", "rest-delivery-points/waited-for", "retained-messages/waited%2Ffor"),
)


@pytest.mark.parametrize("path", OBJECTS)
def test_nothing_can_be_done_to_an_object_before_the_first_answer(
    page: Page, running: GatewayProcess, path: str
) -> None:
    """There may be none, and the answer says so."""
    expect(page.locator("#state")).to_have_text("live")
    held = hold(page, re.compile("/waited"))
    go(page, path)
    button = page.locator("#page").get_by_role("button", name=re.compile("Purge|Delete|Disconnect")).first
    expect(button).to_be_visible()
    expect(page.locator("#contents button:enabled, #contents input:enabled")).to_have_count(0)
    for key in ("P", "Delete", "e"):
        page.keyboard.press(key)
    expect(page.locator("dialog")).to_have_count(0)
    page.route(re.compile("/waited"), lambda route: route.continue_())
    for each in held:
        each.continue_()
    expect(page.locator("h1")).to_have_text("Not found")
    expect(page.locator("#page button")).to_have_count(0)


def test_buttons_and_keys_act_on_an_object_after_the_first_answer(
    page: Page, running: GatewayProcess, own: Own
) -> None:
    name = own("answered")
    running.create_queue(name)
    expect(page.locator("#state")).to_have_text("live")
    held = hold(page, re.compile(f"/queues/{name}$"))
    go(page, f"queues/{name}")
    purge = page.get_by_role("button", name="Purge")
    expect(purge).to_be_disabled()
    held[0].continue_()
    expect(purge).to_be_enabled()
    page.keyboard.press("P")
    expect(page.locator("dialog[open]")).to_contain_text(f"Purge {name}?")


LISTS: Final = (
    *(("queues", "figures/queues"), ("clients", "clients?"), ("mqtt-sessions", "mqtt-sessions?")),
    *(("subscriptions", "smrp/subscriptions?"), ("retained-messages", "retained-messages?")),
    *(("events", "events?"), ("users", "users$"), ("message-vpns", "message-vpns$")),
)


@pytest.mark.parametrize(("path", "asked"), LISTS)
def test_the_filter_of_a_list_keeps_what_is_typed_before_the_first_answer(page: Page, path: str, asked: str) -> None:
    expect(page.locator("#state")).to_have_text("live")
    answers = re.compile(asked.replace("?", r"\?"))
    held = hold(page, answers)
    go(page, path)
    expect(page.locator("#contents")).to_have_attribute("disabled", "")
    page.keyboard.press("/")
    page.keyboard.type("no-such-name")
    typed = page.locator("#page input[type=search]").first
    expect(typed).to_have_value("no-such-name")
    expect(page.locator("#contents table + p")).not_to_be_visible()  # nobody knows yet that nothing fits
    page.route(answers, lambda route: route.continue_())
    for each in held:
        each.continue_()
    expect(page.locator("#page")).to_contain_text(re.compile("No .* match"))
    expect(page.locator("#page tbody tr")).to_have_count(0)
    expect(typed).to_have_value("no-such-name")
    expect(typed).to_be_focused()


def test_messages_are_searched_for_before_the_first_answer(page: Page, running: GatewayProcess, own: Own) -> None:
    name = own("searched")
    running.create_queue(name)
    with client_of(running, "feeder") as client, client.publisher() as publisher:
        publisher.send_all([sluicegate.Message(b"x", queue=name, key=key) for key in ("one", "two")])
        publisher.flush()
    expect(page.locator("#state")).to_have_text("live")
    held = hold(page, re.compile(f"/queues/{name}"))
    go(page, f"queues/{name}/messages")
    expect(page.locator("#contents")).to_have_attribute("disabled", "")
    page.keyboard.press("/")
    partition = page.get_by_label("Partition", exact=True)
    expect(partition).to_be_focused()
    key = page.get_by_label("Key", exact=True)
    key.fill("two")
    page.keyboard.press("Enter")
    page.route(re.compile(f"/queues/{name}"), lambda route: route.continue_())
    for each in held:
        each.continue_()
    expect(page.locator("#page tbody tr")).to_have_count(1)
    expect(row(page, "two")).to_be_visible()
    expect(page.locator("#head [role=status]")).to_contain_text("1 message found, 2 examined")
    expect(key).to_have_value("two")
    expect(page.get_by_role("button", name="Delete")).to_be_disabled()


def test_an_action_goes_on_when_its_dialog_is_closed_and_is_reported(
    page: Page, running: GatewayProcess, own: Own
) -> None:
    name = own("left-alone")
    running.create_queue(name)
    go(page, f"queues/{name}")
    purge = hold(page, re.compile(f"/queues/{name}/purge"))
    page.get_by_role("button", name="Purge").click()
    with page.expect_request(re.compile("/purge")):
        fill_in(page, "Purge")
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    purge[0].fulfill(status=409, body='{"detail": "not while it rains"}')
    expect(page.locator(".notice.wrong")).to_contain_text("not while it rains")

    page.get_by_role("button", name="Delete queue").click()
    whole = hold(page, re.compile(f"/queues/{name}$"))
    with page.expect_request(lambda request: request.method == "DELETE"):
        fill_in(page, "Delete")
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    for each in whole:
        each.continue_()
    expect(page.locator("#notices")).to_contain_text(f"{name} was deleted")
    expect(page.locator("h1")).to_have_text("Queues")


def test_an_edit_leaves_spaces_at_the_ends_of_other_subscriptions(
    page: Page, running: GatewayProcess, own: Own
) -> None:
    """In a topic they are characters like any other."""
    before = [" plant/1", "plant/2 "]
    name = own("spaced")
    running.create_queue(name, subscriptions=before)
    go(page, f"queues/{name}")
    page.get_by_role("button", name="Edit").click()
    answer(page, "Change", max_msg_size="1000")
    assert running.queue(name)["subscriptions"] == before

    page.get_by_role("button", name="Edit").click()
    now = page.locator("dialog[open] [name=subscriptions]").input_value()
    answer(page, "Change", subscriptions=f"{now}\nplant/3")
    assert running.queue(name)["subscriptions"] == [*before, "plant/3"]


def test_an_edit_does_not_undo_what_another_operator_changed_meanwhile(
    page: Page, running: GatewayProcess, own: Own
) -> None:
    """Lists are changed as a whole: a subscription that came meanwhile would go, and nobody would be told."""
    name = own("of-two")
    running.create_queue(name, subscriptions=["a"])
    go(page, f"queues/{name}")
    page.get_by_role("button", name="Edit").click()
    added = HTTP.patch(f"{running.admin_url}/queues/{name}", json={"subscriptions": ["a", "b"]}, timeout=WAIT_MS / 1000)
    assert added.status_code == 200, added.text
    fill_in(page, "Change", subscriptions="a\nc")
    expect(page.locator("dialog[open]").get_by_role("alert")).to_contain_text(
        "subscriptions was changed by another operator"
    )
    assert running.queue(name)["subscriptions"] == ["a", "b"]

    answer(page, "Change", subscriptions="a", max_msg_size="1000")
    assert running.queue(name)["subscriptions"] == ["a", "b"]
    config = running.queue(name)["config"]
    assert isinstance(config, dict)
    assert config["max_msg_size"] == 1000


def test_an_explanation_answers_the_last_question(page: Page, running: GatewayProcess, own: Own) -> None:
    asked_first = own("asked-first")
    asked_last = own("asked-last")
    running.create_queue(asked_first, subscriptions=["one"])
    running.create_queue(asked_last, subscriptions=["two"])
    go(page, "explain")
    first = hold(page, re.compile("topic=one"))
    for topic in ("one", "two"):
        page.locator("form input[name=topic]").fill(topic)
        with page.expect_request(re.compile(f"topic={topic}")):
            page.keyboard.press("Enter")
    expect(row(page, asked_last)).to_have_count(1)
    with page.expect_response(re.compile("topic=one")) as late:
        first[0].continue_()
    late.value.finished()
    page.evaluate("() => new Promise(requestAnimationFrame)")
    expect(row(page, asked_last)).to_have_count(1)
    expect(row(page, asked_first)).to_have_count(0)


def test_the_message_vpn_is_the_one_that_the_address_names(page: Page, running: GatewayProcess, own: Own) -> None:
    """docs/operate/console.md: also after a name that there is not, and after another one was chosen."""
    name = own("of-sales")
    running.create_queue(name, vpn="sales")
    for name in ("slaes", "sales"):
        page.goto(f"{running.admin_url}/console/?vpn={name}#/queues")
        expect(page.locator("#vpn")).to_have_value("default" if name == "slaes" else "sales")
    expect(row(page, name)).to_have_count(1)

    page.locator("#vpn").select_option("default")
    expect(row(page, name)).to_have_count(0)
    page.reload()
    expect(page.locator("#vpn")).to_have_value("default")
    page.goto(f"{running.admin_url}/console/?vpn=sales#/queues")
    expect(row(page, name)).to_have_count(1)
