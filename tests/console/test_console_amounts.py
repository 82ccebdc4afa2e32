"""Amounts in the console's forms: sizes and times are typed and shown with units, and no limit has a word."""

from collections.abc import Callable, Iterator
from operator import lshift, mul
from typing import Any, Final, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import builds, integers, lists, sampled_from
from playwright.sync_api import Locator, Page, expect

from sluicegate.gateway.config.sections.values import UNITS, format_size, parse_size
from support.http.plain import HTTP
from support.operations.console_page import answer, fill_in, go, row
from support.processes.gateway import GatewayProcess, gateway

pytestmark = [pytest.mark.slow, pytest.mark.interop]

Own = Callable[[str], str]
MEGABYTES: Final = 10**6
# What the console writes for each of a list of numbers, and reads in each of a list of texts.
WRITE: Final = (
    "async ([url, sizes]) => { const { BYTES } = await import(url); return sizes.map(each => BYTES.write(each)) }"
)
READ: Final = (
    "async ([url, texts]) => { const { BYTES } = await import(url); return texts.map(each => BYTES.read(each, {})) }"
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway(tmp_path_factory.mktemp("amounts"), node__name="here") as process:
        yield process


def edit_queue(page: Page, running: GatewayProcess, name: str, **attributes: Any) -> Locator:
    """Create a queue, and open the form that edits it."""
    running.create_queue(name, **attributes)
    go(page, f"queues/{name}")
    page.get_by_role("button", name="Edit").click()
    return page.locator("dialog[open]")


def definition(running: GatewayProcess, name: str) -> dict[str, Any]:
    """Return the attributes of a queue."""
    return cast("dict[str, Any]", running.queue(name)["config"])


def test_sizes_and_times_of_a_queue_are_shown_and_typed_with_units(
    page: Page, running: GatewayProcess, own: Own
) -> None:
    name = own("units")
    dialog = edit_queue(page, running, name, max_msg_size=1_000_001, max_msg_spool_usage=10_240)
    for attribute, shown in (
        ("max_msg_size", "1000001 B"),
        ("max_msg_spool_usage", "10 GiB"),
        ("redelivery_delay_max_interval_ms", "64 s"),
        ("partition_rebalance_delay_s", "5 s"),
        ("max_ttl", "no limit"),
        ("expires_unbound_s", "never"),
    ):
        expect(dialog.locator(f"[name={attribute}]")).to_have_value(shown)
    typed = {"max_msg_size": "1.5mib", "redelivery_delay_max_interval_ms": "90 S", "max_ttl": "2 h"}
    plain = {"max_msg_spool_usage": "300", "consumer_ack_timeout_ms": "1500", "expires_unbound_s": "86400"}
    answer(page, "Change", **typed, **plain)
    config = definition(running, name)
    assert (config["max_msg_size"], config["max_msg_spool_usage"]) == (3 << 19, 300)
    assert (config["redelivery_delay_max_interval_ms"], config["consumer_ack_timeout_ms"]) == (90_000, 1500)
    assert (config["max_ttl"], config["expires_unbound_s"]) == (7200, 86_400)
    for text in ("1536 KiB", "300 MiB", "90 s", "1500 ms", "2 h", "1 d"):
        expect(page.locator("dl.facts dd", has_text=text).first).to_be_visible()

    page.get_by_role("button", name="Edit").click()
    answer(page, "Change", max_ttl="No limit", expires_unbound_s="0", max_msg_size="")
    config = definition(running, name)
    assert (config["max_ttl"], config["expires_unbound_s"]) == (0, 0)
    assert config["max_msg_size"] == 10 * MEGABYTES, "an empty field is the default, as its placeholder says"


def test_a_field_says_what_is_allowed_as_soon_as_it_is_left(page: Page, running: GatewayProcess, own: Own) -> None:
    dialog = edit_queue(page, running, own("wrong"))
    size, error = (
        dialog.locator("[name=max_msg_size]"),
        dialog.locator("label", has=page.locator("[name=max_msg_size]")),
    )
    expect(size).to_have_value("10 MB")
    for text, told in (
        ("12 XB", "12 XB is not a size in whole bytes; allowed: a number with B, kB, MB, GB, TB, KiB, MiB, GiB or TiB"),
        ("1 GB", "1 GB is out of range; allowed: 0 B to 30 MB"),
        ("1.0000001 kB", "is not a size in whole bytes"),
    ):
        size.fill(text)
        size.press("Tab")
        expect(error).to_contain_text(told)
        expect(size).to_have_attribute("aria-invalid", "true")
        expect(size).not_to_be_focused()
    fill_in(page, "Change")
    expect(dialog.get_by_role("alert")).to_contain_text("max_msg_size: 1.0000001 kB is not a size")
    expect(size).to_be_focused()
    size.fill("2048 kib")
    size.press("Tab")
    expect(size).to_have_value("2 MiB")
    expect(size).not_to_have_attribute("aria-invalid", "true")
    quota = dialog.locator("[name=max_msg_spool_usage]")
    quota.fill("10 GB")
    quota.press("Tab")
    expect(dialog).to_contain_text("10 GB is not a size in whole MiB")
    quota.fill("1 TiB")
    answer(page, "Change")


def test_what_is_typed_in_another_unit_changes_nothing(page: Page, running: GatewayProcess, own: Own) -> None:
    name = own("same")
    dialog = edit_queue(page, running, name)
    HTTP.patch(f"{running.admin_url}/queues/{name}", json={"max_msg_size": 5})
    dialog.locator("[name=max_msg_size]").fill("10000 kB")
    answer(page, "Change", max_ttl="60")
    assert definition(running, name)["max_msg_size"] == 5, "the change of another operator stays"


def test_amounts_in_rows_have_units(page: Page, running: GatewayProcess, own: Own) -> None:
    name, path = own("pushes"), f"{running.admin_url}/rest-delivery-points"
    consumers = [{"name": each, "remote_host": "127.0.0.1"} for each in ("one", "two")]
    created = HTTP.post(path, json={"name": name, "enabled": False, "rest_consumers": consumers})
    assert created.status_code == 201, created.text
    go(page, f"rest-delivery-points/{name}")
    page.get_by_role("button", name="Edit").click()
    second = page.get_by_role("group", name="REST consumer 2")
    second.locator("summary").click()
    wait = second.get_by_label("retry delay")
    expect(wait).to_have_value("3 s")
    wait.fill("soon")
    fill_in(page, "Change")
    expect(wait).to_be_focused()
    expect(second).to_contain_text("soon is not a time in whole s")
    wait.fill("2 min")
    answer(page, "Change")
    made = HTTP.get(f"{path}/{name}").json()["definition"]["rest_consumers"]
    assert [each["retry_delay_s"] for each in made] == [3, 120]


def test_a_message_vpn_is_made_without_limits_where_the_default_has_one(
    page: Page, running: GatewayProcess, own: Own
) -> None:
    name = own("free")
    go(page, "message-vpns")
    page.get_by_role("button", name="New message VPN").click()
    dialog = page.locator("dialog[open]")
    for attribute, default in (
        ("retained_bytes_max", "256 MiB"),
        ("max_mqtt_session_count", "100000"),
        ("max_connection_count", "no limit"),
    ):
        expect(dialog.locator(f"[name={attribute}]")).to_have_value("")
        expect(dialog.locator(f"[name={attribute}]")).to_have_attribute("placeholder", f"default: {default}")
    unlimited = {"retained_bytes_max": "no limit", "max_mqtt_session_count": "no limit"}
    answer(page, "Create", name=name, **unlimited, subscription_bytes_max="1 GB")
    made = HTTP.get(f"{running.admin_url}/message-vpns/{name}").json()["settings"]
    assert (made["retained_bytes_max"], made["max_mqtt_session_count"]) == (2**46, 2**40)
    assert (made["subscription_bytes_max"], made["session_bytes_max"]) == (10**9, 256 << 20)
    row(page, name).click()
    expect(page.locator("#page")).to_contain_text("retained bytes maximumno limit")
    expect(page.locator(".gauges")).to_contain_text("Retained data0 B, no limit")
    expect(page.locator(".gauges")).to_contain_text("of 256 MiB")


SIZES: Final = (
    integers(0, 2**46)
    | builds(lshift, integers(0, 2**10), integers(0, 36))
    | builds(mul, integers(0, 999), sampled_from(list(UNITS.values())[:4]))
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=lists(SIZES, max_size=50))
def test_sizes_are_written_and_read_as_in_the_configuration(
    page: Page, running: GatewayProcess, sizes: list[int]
) -> None:
    """Every size comes back as it was."""
    module = f"{running.admin_url}/console/widgets/amounts.js"
    written = page.evaluate(WRITE, [module, sizes])
    assert written == [format_size(each) for each in sizes]
    assert page.evaluate(READ, [module, written]) == sizes
    typed = [f"{size % 1000}.5{unit.lower()}" for size in sizes for unit in UNITS if unit != "B"]
    assert page.evaluate(READ, [module, typed]) == [parse_size(each) for each in typed]
