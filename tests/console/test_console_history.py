"""The console draws what the gateway keeps of the last hour, from the moment a page opens; and what waits where."""

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from support.operations.console_page import go, row
from support.operations.console_traffic import client_of, publish
from support.processes.gateway import GatewayProcess, gateway

pytestmark = [pytest.mark.slow, pytest.mark.interop]
Own = Callable[[str], str]
SOME = re.compile(r"messages [1-9]")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway(tmp_path_factory.mktemp("history")) as process:
        yield process


def drawing(page: Page, title: str) -> str:
    """Return what a chart says of itself to those who do not see it."""
    return page.get_by_role("img", name=title).get_attribute("aria-label") or ""


def test_a_page_opens_with_the_history_that_the_gateway_has_kept(page: Page, running: GatewayProcess, own: Own) -> None:
    name = own("kept")
    running.create_queue(name)
    go(page, f"queues/{name}")
    publish(running, name, b"1", b"2")
    expect(page.get_by_role("img", name=SOME)).to_be_visible()
    page.reload()
    expect(page.get_by_role("img", name=SOME)).to_be_visible()
    assert page.locator(".chart canvas").count() == 3
    page.get_by_role("button", name="1 hour").click()
    expect(page.get_by_role("button", name="1 hour")).to_have_attribute("aria-pressed", "true")
    go(page, "")
    expect(page.get_by_role("button", name="1 hour")).to_have_attribute("aria-pressed", "true")


# Readings as a page adds them, whose chart uPlot draws; returns the times and values of the drawing.
READINGS_DRAWN = """async (readings) => {
    const { GatheredCharts } = await import("./widgets/time-charts.js");
    const Real = uPlot;
    let plot = null;
    window.uPlot = function (...given) { return (plot = new Real(...given)); };
    const drawn = [{ title: "Own", figures: [["n", "N"]], words: String }];
    const charts = new GatheredCharts({ drawn, label: "Own" });
    document.querySelector("#page").append(charts.element);
    for (const [at, n] of readings) charts.add(at, { n });
    return plot.data;
}"""


# Draws readings in a chart; returns the points that it shows besides its line, and whether the line spans gaps.
LONELY_POINTS = """async (values) => {
    const { TimeCharts } = await import("./widgets/time-charts.js");
    const Real = uPlot;
    let plot = null;
    window.uPlot = function (...given) { return (plot = new Real(...given)); };
    const times_ms = values.map((_, at) => 1_800_000_000_000 + 2000 * at);
    const others = window.fetch; // the page goes on to ask
    window.fetch = async (url, ...more) => {
        if (!String(url).includes("/own-history")) return others(url, ...more);
        return new Response(JSON.stringify({ step_ms: 2000, times_ms, values: { n: values } }));
    };
    const drawn = [{ title: "Own", figures: [["n", "N"]], words: String }];
    const charts = new TimeCharts({ path: "own-history", drawn, label: "Own" });
    document.querySelector("main").append(charts.element);
    await charts.refresh();
    const [, line] = plot.series;
    return [line.points.filter(plot, 1), line.spanGaps];
}"""


def test_a_step_without_a_value_is_a_gap_and_a_value_between_gaps_a_point(page: Page) -> None:
    expect(page.locator("#state")).to_have_text("live")  # its own charts are drawn
    assert page.evaluate(LONELY_POINTS, [1, None, 2, 3, None, 4, None, None, 5, 6, None]) == [[0, 5], False]


# A chart that follows a gateway which was down for a minute; returns its times, from the first, and its values.
DOWN_FOR_A_MINUTE = """async () => {
    const { TimeCharts } = await import("./widgets/time-charts.js");
    const Real = uPlot;
    let plot = null;
    window.uPlot = function (...given) { return (plot = new Real(...given)); };
    const at = 1_800_000_000_000;
    const answers = [[at, at + 2000], [at + 62_000, at + 64_000]];
    const others = window.fetch; // the page goes on to ask
    window.fetch = async (url, ...more) => {
        if (!String(url).includes("/own-history")) return others(url, ...more);
        const times_ms = answers.shift();
        return new Response(JSON.stringify({ step_ms: 2000, times_ms, values: { n: [1, 2] } }));
    };
    const drawn = [{ title: "Own", figures: [["n", "N"]], words: String }];
    const charts = new TimeCharts({ path: "own-history", drawn, label: "Own" });
    document.querySelector("main").append(charts.element);
    await charts.refresh();
    await charts.refresh();
    return [plot.data[0].map((each) => each - at / 1000), plot.data[1]];
}"""


def test_the_time_in_which_the_gateway_was_down_is_a_gap(page: Page) -> None:
    expect(page.locator("#state")).to_have_text("live")
    assert page.evaluate(DOWN_FOR_A_MINUTE) == [[0, 2, 4, 62, 64], [1, 2, None, 1, 2]]


@pytest.mark.parametrize(
    ("last_ms", "drawn"), [(3000, [[1, 2, 3], [1, 2, 9]]), (2000, [[1, 2], [1, 2]]), (1500, [[1.5], [9]])]
)
def test_only_a_clock_that_was_set_back_begins_a_gathered_chart_anew(
    page: Page, last_ms: int, drawn: list[list[float]]
) -> None:
    """Two readings may come within a millisecond."""
    expect(page.locator("#page h1")).to_be_visible()
    assert page.evaluate(READINGS_DRAWN, [[1000, 1], [2000, 2], [last_ms, 9]]) == drawn


def test_pointing_at_a_chart_says_what_was_at_that_time_in_all_charts(
    page: Page, running: GatewayProcess, own: Own
) -> None:
    chart = page.get_by_role("img", name=re.compile("Memory of the process: resident [1-9]"))
    expect(chart).to_be_visible()
    box = chart.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] - 30, box["y"] + box["height"] / 2)
    expect(page.locator(".chart .when", has_text=re.compile(r"at \d\d:\d\d:\d\d"))).to_have_count(6)


def test_owners_handoffs_and_keys_that_wait_are_seen_in_a_partitioned_queue(
    page: Page, running: GatewayProcess, own: Own
) -> None:
    name = own("wide")
    running.create_queue(name, partition_count=2, access_type="non-exclusive", partition_rebalance_delay_s=0)
    publish(running, name, b"1", b"2")
    go(page, f"queues/{name}")
    expect(page.locator(".owners")).to_contain_text("no consumer: 2 partitions")
    with client_of(running, "worker") as client, client.consumer(name):
        # With a broker's name behind it where the queue has another home on the machine.
        expect(page.locator(".owners")).to_contain_text(re.compile(r"worker(@\S+)?: 2 partitions"))
        expect(page.locator(".handoffs")).to_contain_text("from nobody to worker")
        page.locator(".partition", has_text="2 unacked").click()
        expect(row(page, "customer-7", table="Keys that wait")).to_contain_text("2")
    page.get_by_role("link", name="customer-7").click()
    expect(page.locator("#page")).to_contain_text("oldest waiting")
    expect(page.locator("[name=queue]").nth(1)).to_have_value(name)


def test_a_message_is_explained_from_where_it_waits(page: Page, running: GatewayProcess, own: Own) -> None:
    name = own("explained")
    running.create_queue(name, subscriptions=["some/topic"])
    publish(running, name, b"1")
    go(page, f"queues/{name}/messages")
    page.locator('tr[data-key="0:1"]').click()
    page.get_by_role("link", name="Explain this message").click()
    expect(page.get_by_role("table", name="Destinations")).to_be_visible()
    expect(page.locator("#page")).to_contain_text("oldest waiting")


def test_the_overview_leads_to_what_is_wrong(page: Page, running: GatewayProcess, own: Own) -> None:
    source, dead = own("source"), own("dead")
    running.create_queue(dead)
    attention = page.get_by_role("region", name="What is wrong now")
    expect(attention).not_to_contain_text(dead)
    publish(running, dead, b"1")
    expect(attention.get_by_role("link", name=f"1 message in {dead}, and no consumer")).to_be_visible()
    running.create_queue(source, dead_msg_queue=dead)
    attention.get_by_role("link", name=f"1 dead message in {dead}").click()
    expect(page.locator("#page .trail")).to_contain_text(dead)
    expect(page.locator('tr[data-key="0:1"]')).to_be_visible()


WATCHED = {
    **{"name": "q", "dead_msg_queue": "d", "ready_count": 2, "unacked_count": 1, "flows_count": 1, "settled_total": 7},
    **{"refused_total": 3, "discarded_total": 0, "spooled_bytes": 96, "quota_bytes": 100},
}
WATCH = """async readings => {
    const { QueueWatch } = await import('./pages/attention.js');
    const watch = new QueueWatch();
    return readings.map(([row, atMs]) => watch.troubles([row], atMs).map(each => each.text));
}"""


def test_a_queue_is_stalled_refuses_or_loses_messages_as_its_figures_say(page: Page) -> None:
    moved = {**WATCHED, "refused_total": 5, "discarded_total": 1}
    readings = [(WATCHED, 0), (WATCHED, 29_000), (moved, 30_000), (moved, 80_000), (moved, 150_000)]
    full, stalled = "q is 96 % full", "q is stalled: 3 messages, 1 consumer, none settled for {} s"
    refused = "q has refused 2 messages in the last minute"
    lost = "q has lost 1 message in the last minute: discarded, and in no dead message queue"
    assert page.evaluate(WATCH, readings) == [
        [full],
        [full],
        [refused, lost, stalled.format(30), full],
        [refused, lost, stalled.format(80), full],
        [stalled.format(150), full],
    ]
    settles = [({**WATCHED, "settled_total": at}, at * 40_000) for at in range(3)]
    assert page.evaluate(WATCH, settles) == [[full]] * 3
    empty = {**WATCHED, "ready_count": 0, "unacked_count": 0}
    assert page.evaluate(WATCH, [(empty, 0), (empty, 40_000), (WATCHED, 50_000)]) == [[full]] * 3
