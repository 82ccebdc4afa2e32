"""The console in Firefox: every page opens without an error, figures are live, forms work, charts are drawn."""

from collections.abc import Iterator
from typing import Final

import pytest

from support.http.plain import HTTP
from support.operations.console_traffic import client_of, publish
from support.operations.firefox import TAB, FirefoxPage, firefox
from support.processes.gateway import GatewayProcess, gateway

pytestmark = [pytest.mark.slow, pytest.mark.interop]
DETAILS: Final = ("queues/wide", "queues/wide/messages", "templates", "message-vpns/default", "clients/worker")
# From now on the page's requests wait until letAnswersCome() is called.
HOLD_ANSWERS: Final = """void (() => {
    const { fetch } = window, held = [];
    window.fetch = (...request) => new Promise(sent => held.push(() => sent(fetch(...request))));
    window.letAnswersCome = () => { window.fetch = fetch; for (const send of held) send(); };
})()"""
MANY: Final = 40  # rows of a form
FOCUSED: Final = "document.activeElement.getAttribute('aria-label') ?? document.activeElement.name"
LINE_PIXELS_MIN: Final = 50  # of the colour of a series; its legend is no part of the canvas
# How many pixels of a chart have the colour of its first series, in each chart of the page.
PIXELS_OF_SERIES: Final = """[...document.querySelectorAll(".plot canvas")].map(canvas => {
    const accent = getComputedStyle(document.documentElement).getPropertyValue("--accent").trim();
    const wanted = [1, 3, 5].map(at => parseInt(accent.slice(at, at + 2), 16));
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let found = 0;
    for (let at = 0; at < data.length; at += 4)
        if (data[at + 3] > 200 && wanted.every((value, part) => Math.abs(data[at + part] - value) < 30)) found += 1;
    return found;
})"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway(tmp_path_factory.mktemp("console"), node__name="here") as process:
        process.create_queue("wide", partition_count=3, access_type="non-exclusive")
        yield process


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run Firefox."""
    with firefox(tmp_path_factory.mktemp("firefox")) as address:
        yield address


@pytest.fixture
def page(browser: str, running: GatewayProcess) -> Iterator[FirefoxPage]:
    """Open the console of the gateway; an error on its console fails the test."""
    with FirefoxPage(browser) as opened:
        opened.open(f"{running.admin_url}/console/")
        opened.wait_for_text("#state", "live")
        yield opened
        opened.evaluate("true")  # errors are noted while a command waits for its answer
        assert opened.errors == []


def go(page: FirefoxPage, path: str) -> None:
    """Open a page of the console by its address, and wait until it shows something of the gateway."""
    page.evaluate("void document.querySelectorAll('#head, #contents').forEach(part => part.replaceChildren())")
    page.evaluate(f"void (location.hash = {f'#/{path}'!r})")
    page.wait_for("document.querySelector('#page h1') !== null")
    page.wait_for_answers()
    page.wait_for_text("#state", "live")


def test_every_page_opens_without_an_error(page: FirefoxPage, running: GatewayProcess) -> None:
    paths = page.evaluate(
        "[...document.querySelectorAll('#pages a[data-path]:not([hidden])')].map(a => a.dataset.path)"
    )
    assert len(paths) > 10
    with client_of(running, "worker") as client, client.consumer("wide"):
        for path in [*paths, *DETAILS]:
            go(page, path)
            assert page.text("#page h1") not in ("", "Not found"), path
            assert page.text("#page").strip() != page.text("#page h1"), path
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path


def test_what_is_typed_before_the_first_answer_is_kept(page: FirefoxPage, running: GatewayProcess) -> None:
    for name in ("kept-1", "other-1"):
        running.create_queue(name)
    page.evaluate(HOLD_ANSWERS)
    page.evaluate("void (location.hash = '#/queues')")
    page.wait_for_text("#page h1", "Queues")
    page.type("#page input[type=search]", "kept")
    assert page.evaluate("document.querySelector('#page input[type=search]').value") == "kept"
    page.evaluate("void letAnswersCome()")
    page.wait_for("document.querySelector('tr[data-key=kept-1]') !== null")
    assert page.evaluate("document.querySelector('tr[data-key=other-1]') === null")
    assert page.evaluate("document.activeElement.value") == "kept"


def test_figures_are_live(page: FirefoxPage, running: GatewayProcess) -> None:
    ready = 'table[aria-label="Busiest queues"] tr[data-key="wide"] td:nth-child(5)'
    page.wait_for_text(ready, "0")
    publish(running, "wide", b"1")
    page.wait_for_text(ready, "1")
    publish(running, "wide", b"2", b"3")
    page.wait_for_text(ready, "3")


def test_charts_are_drawn(page: FirefoxPage, running: GatewayProcess) -> None:
    publish(running, "wide", *[b"x"] * 200)
    go(page, "queues/wide")
    page.wait_for(f"{PIXELS_OF_SERIES}.length >= 3 && {PIXELS_OF_SERIES}.every(each => each > {LINE_PIXELS_MIN})")


def test_a_queue_is_created_and_deleted(page: FirefoxPage, running: GatewayProcess) -> None:
    go(page, "queues")
    page.click_button("New queue")
    page.type("dialog[open] [name=name]", "made-in-firefox")
    page.click_button("Create", within="dialog[open]")
    page.wait_for_text("#page h1", "made-in-firefox")
    assert running.queue("made-in-firefox")["durable"] is True
    page.click_button("Delete queue")
    page.click_button("Delete", within="dialog[open]")
    page.wait_for_text("#notices", "made-in-firefox was deleted")
    page.wait_for_text("#page h1", "Queues")
    page.wait_for("document.querySelector('tr[data-key=made-in-firefox]') === null")


def test_rows_of_a_form_are_added_removed_and_marked_wrong(page: FirefoxPage, running: GatewayProcess) -> None:
    """There are many of them. The keyboard goes through them in order, and an error is at the row that has it."""
    rules = [{"topic": f"t/{number}", "qos": 1} for number in range(1, MANY + 1)]
    body = {"name": "rows", "remote_url": "mqtt://127.0.0.1:1", "enabled": False, "outgoing": rules}
    made = HTTP.post(f"{running.admin_url}/bridges", json=body)
    assert made.is_success, made.text
    go(page, "bridges/rows")
    page.click_button("Edit")
    for _ in range(2):
        page.click("[aria-label='Remove outgoing rule 20']")
        assert page.evaluate(FOCUSED) == "Remove outgoing rule 20"
    assert page.evaluate("document.getElementsByName('outgoing.19.topic')[0].value") == "t/22"
    page.click("fieldset:has([name='outgoing.0.name']) > button")
    expected = [f"outgoing.{MANY - 2}.{field}" for field in ("name", "strip_prefix", "add_prefix", "topic_syntax")]
    for name in expected:
        assert page.evaluate(FOCUSED) == name
        page.press(TAB)

    page.click("dialog[open] .actions .primary")
    page.wait_for_text("dialog[open] [role=alert]", "either queue or topic")
    assert page.evaluate(FOCUSED) == f"outgoing.{MANY - 2}.name"
    error = "[...document.querySelectorAll('.row-error:not([hidden])')].map(e => e.parentElement.ariaLabel)"
    assert page.evaluate(error) == [f"outgoing rule {MANY - 1}"]
    page.type(f"[name='outgoing.{MANY - 2}.topic']", "last")
    page.evaluate("void (document.getElementsByName('window_bytes')[0].value = '16 XB')")
    page.click("dialog[open] .actions .primary")
    page.wait_for_text(
        "label:has([name=window_bytes])", "16 XB is not a size in whole bytes; allowed: a number with B,"
    )
    assert page.evaluate(FOCUSED) == "window_bytes"
    page.evaluate("void (document.getElementsByName('window_bytes')[0].value = '')")
    page.type("[name=window_bytes]", "2048 kib")
    page.click("dialog[open] .actions .primary")
    page.wait_for("document.querySelector('dialog') === null")
    made = HTTP.get(f"{running.admin_url}/bridges/rows").json()["definition"]
    kept = [f"t/{number}" for number in range(1, MANY + 1) if number not in (20, 21)]
    assert [each["topic"] for each in made["outgoing"]] == [*kept, "last"]
    assert made["window_bytes"] == 2 << 20
