"""Administration in the console beside queues: users, delivery points, durable cursors and backups."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from sluicegate.testing.ports import free_port
from support.http.plain import HTTP
from support.operations.console_page import answer, fill_in, go, row
from support.operations.console_traffic import client_of, publish
from support.processes.gateway import GatewayProcess

pytestmark = [pytest.mark.slow, pytest.mark.interop]

Own = Callable[[str], str]

# Beside what is made here; and whoever has no account comes in.
CONFIGURATION = """
node: {{name: here}}
authentication:
  allow_anonymous: true
  users: [{{name: fixed, password_file: {password}}}]
rest_delivery_points: [{{name: fixed-point}}]
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    folder: Path = tmp_path_factory.mktemp("administered")
    password, file = folder / "password", folder / "sluicegate.yaml"
    password.write_text("fixed-word\n")
    file.write_text(CONFIGURATION.format(password=password))
    with GatewayProcess(folder, config_file=file) as process:
        yield process


def test_pages_say_that_nothing_was_made_on_this_node_yet(page: Page) -> None:
    """So this test is the first."""
    for path, said in (("templates", "No queue templates."), ("spool", "No backup since the node started.")):
        go(page, path)
        expect(page.locator("#page")).to_contain_text(said)


def test_users_are_made_shut_down_and_deleted(page: Page, own: Own) -> None:
    name = own("ada")
    go(page, "users")
    page.get_by_role("button", name="New user").click()
    expect(page.locator("dialog[open] [name=password]")).to_have_attribute("type", "password")
    fill_in(page, "Create", name=name)
    expect(page.locator("dialog[open]").get_by_role("alert")).to_contain_text("password")
    answer(page, "Create", password="engine-7")
    expect(row(page, name)).to_contain_text("enabled")

    row(page, name).click()
    answer(page, "Change", enabled="false")
    expect(row(page, name)).to_contain_text("shut down")

    page.get_by_label("Filter users").fill("ADA")
    expect(row(page, "fixed")).to_have_count(0)
    row(page, name).get_by_role("button", name="Delete").click()
    answer(page, "Delete")
    expect(row(page, name)).to_have_count(0)


def test_objects_of_the_configuration_are_shown_and_cannot_be_changed(page: Page, running: GatewayProcess) -> None:
    """docs/decisions/0039-provisioning.md."""
    go(page, "users")
    expect(row(page, "fixed").get_by_role("button")).to_have_count(0)
    row(page, "fixed").click()
    expect(page.locator("#notices")).to_contain_text("is defined in the configuration")
    go(page, "rest-delivery-points/fixed-point")
    expect(page.locator("#page")).to_contain_text("defined in the configuration")
    for deed in ("Edit", "Delete delivery point"):
        expect(page.get_by_role("button", name=deed)).to_be_disabled()


def test_a_delivery_point_is_made_edited_and_deleted(page: Page, running: GatewayProcess, own: Own) -> None:
    name, queue = own("billing"), own("pushed")
    running.create_queue(queue)
    nobody = str(free_port())
    go(page, "rest-delivery-points")
    page.get_by_role("button", name="New delivery point").click()
    answer(page, "Create", name=name, queue=queue, target="/orders", host="127.0.0.1", port=nobody)

    expect(page.locator("h1")).to_have_text(name)
    expect(row(page, "/orders", table="Queue bindings")).to_contain_text(queue)
    row(page, "/orders", table="Queue bindings").get_by_role("link", name=queue).click()
    page.get_by_role("link", name=f"#rdp/{name}").first.click()  # the consumer of the queue
    expect(page.locator("h1")).to_have_text(name)
    expect(row(page, "server", table="REST consumers")).to_contain_text("down: ")

    page.get_by_role("button", name="Edit").click()
    dialog = page.locator("dialog[open]")
    dialog.get_by_role("button", name="Add queue binding").click()
    page.keyboard.type("also")
    added = dialog.get_by_role("group", name="queue binding 2")
    added.get_by_label("post request target").fill("/a")
    answer(page, "Change", enabled="false")
    definition = HTTP.get(f"{running.admin_url}/rest-delivery-points/{name}").json()["definition"]
    assert [each["queue"] for each in definition["queue_bindings"]] == [queue, "also"]
    expect(page.locator("#page")).to_contain_text("shut down, created by an operator")

    page.get_by_role("button", name="Delete delivery point").click()
    answer(page, "Delete")
    expect(row(page, "fixed-point")).to_be_visible()
    expect(row(page, name)).to_have_count(0)


def test_a_bridge_is_made_edited_paused_and_deleted(page: Page, running: GatewayProcess, own: Own) -> None:
    name, queue = own("plant"), own("to-plant")
    running.create_queue(queue)
    url = f"mqtt://127.0.0.1:{free_port()}"
    go(page, "bridges")
    page.get_by_role("button", name="New bridge").click()
    answer(page, "Create", name=name, url=url, queue=queue, topic="alarms/#")

    expect(page.locator("h1")).to_have_text(name)
    expect(row(page, queue, table="Rules").first).to_contain_text("outgoing")
    expect(page.locator("#page")).to_contain_text("Connection refused")

    page.get_by_role("button", name="Edit").click()
    answer(page, "Change", retry_delay_s="9")
    expect(page.locator("#page")).to_contain_text("created by an operator")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#page")).to_contain_text("paused by an operator")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#page")).to_contain_text("Connection refused")

    page.get_by_role("button", name="Delete bridge").click()
    answer(page, "Delete")
    expect(row(page, name)).to_have_count(0)


def test_a_queue_shows_its_durable_cursors_which_can_be_deleted(page: Page, running: GatewayProcess, own: Own) -> None:
    name = own("read-in-bulk")
    running.create_queue(name)
    publish(running, name, b"1", b"2")
    go(page, f"queues/{name}")
    with client_of(running, "reader") as client:
        client.bulk.bind_cursor(name, "nightly", instance="job-7", start="earliest")
        cursor = row(page, "nightly", table="Durable cursors")
        for told in ("bound", "job-7", "2"):
            expect(cursor).to_contain_text(told)

    cursor.get_by_role("button", name="Delete").click()
    answer(page, "Delete")
    expect(cursor).to_have_count(0)


def test_a_cursor_that_a_browser_cannot_name_is_left_and_so_is_its_queue(
    page: Page, running: GatewayProcess, own: Own
) -> None:
    """Clients choose these names, and `queues/kept/cursors/..` is `queues/kept/` to a browser."""
    name = own("kept")
    running.create_queue(name)
    go(page, f"queues/{name}")
    with client_of(running, "reader") as client:
        client.bulk.bind_cursor(name, "..", instance="job-7", start="earliest")
        row(page, "job-7", table="Durable cursors").get_by_role("button", name="Delete").click()
        fill_in(page, "Delete")
        expect(page.locator("dialog[open]").get_by_role("alert")).to_contain_text("use the command sluicegate")
    assert running.queue(name)
    told = running.command("queue", "delete-cursor", name, "..", "--yes")
    assert told.returncode == 0, told.stderr
    assert running.queue(name)


def test_a_backup_is_made_and_shown(page: Page, running: GatewayProcess, own: Own) -> None:
    name = own("before-the-move")
    go(page, "spool")
    page.get_by_role("button", name="New backup").click()
    answer(page, "Start", name=name)

    expect(page.locator("#page")).to_contain_text(f"name{name}")
    expect(page.locator("#page")).to_contain_text("statedone")
    expect(page.get_by_role("button", name="Cancel")).to_be_hidden()
    assert (running.backups / name / "backup.json").is_file()


@pytest.mark.parametrize(
    ("button", "field", "table"),
    [("New client profile", "max_msg_rate", "Client profiles"), ("New ACL profile", "", "ACL profiles")],
)
def test_profiles_are_made_changed_and_deleted(page: Page, own: Own, button: str, field: str, table: str) -> None:
    name = own("devices")
    go(page, "profiles")
    page.get_by_role("button", name=button).click()
    if not field:
        page.get_by_role("button", name="Add topic exception").first.click()
    answer(page, "Create", name=name, **({field: "50"} if field else {"'publish_topic_exceptions.0.topic'": "plant/>"}))
    expect(row(page, name, table=table)).to_contain_text("50" if field else "disallow, 1 exception")

    row(page, name, table=table).click()
    answer(page, "Change", **({field: "60"} if field else {"publish_topic_default_action": "allow"}))
    expect(row(page, name, table=table)).to_contain_text("60" if field else "allow, 1 exception")

    row(page, "default", table=table).click()
    expect(page.locator("dialog[open]")).to_contain_text("can only be changed there")
    page.locator("dialog[open]").get_by_role("button", name="Close").click()
    row(page, name, table=table).get_by_role("button", name="Delete").click()
    answer(page, "Delete")
    expect(row(page, name, table=table)).to_have_count(0)


def test_a_message_vpn_of_the_configuration_is_shown_with_its_usage(page: Page) -> None:
    go(page, "message-vpns")
    row(page, "default").click()
    expect(page.locator("#page")).to_contain_text("defined in the configuration file")
    expect(page.locator(".gauges")).to_contain_text("of 256 MiB")
    for deed in ("Edit", "Delete message VPN"):
        expect(page.get_by_role("button", name=deed)).to_be_disabled()


def test_a_message_vpn_is_made_changed_and_deleted(page: Page, running: GatewayProcess, own: Own) -> None:
    """One that has something is deleted when its name is typed."""
    name = own("sales")
    go(page, "message-vpns")
    expect(row(page, "default").get_by_role("button")).to_have_count(0)
    page.get_by_role("button", name="New message VPN").click()
    fill_in(page, "Create", name="1st")
    expect(page.locator("dialog[open]").get_by_role("alert")).to_contain_text("name: '1st' is not allowed")
    answer(page, "Create", name=name, max_connection_count="7")
    expect(row(page, name)).to_contain_text("up")
    expect(page.locator("#vpn option", has_text=name)).to_have_count(1)

    row(page, name).click()
    expect(page.locator("h1")).to_have_text(name)
    page.get_by_role("button", name="Edit").click()
    answer(page, "Change", enabled="false", allow_anonymous="true")
    expect(page.locator("#page")).to_contain_text("shut down, created by an operator")
    expect(page.locator("#page")).to_contain_text("maximum connection count7")
    expect(page.locator(".gauges")).to_contain_text("Clients0 of 7")

    running.create_queue("orders", vpn=name)
    go(page, "message-vpns")
    row(page, name).get_by_role("button", name="Delete").click()
    expect(page.locator("dialog[open]")).to_contain_text("It has 1 queue.")
    fill_in(page, "Delete", name="another")
    expect(page.locator("dialog[open]").get_by_role("alert")).to_contain_text("nothing was deleted")
    answer(page, "Delete", name=name)
    expect(row(page, name)).to_have_count(0)
    expect(page.locator("#vpn option", has_text=name)).to_have_count(0)


def test_what_has_no_limit_says_so_and_stays_without(page: Page, running: GatewayProcess, own: Own) -> None:
    """The gateway's value for that is the maximum of the attribute."""
    name = own("wide-open")
    created = HTTP.post(f"{running.admin_url}/message-vpns", json={"name": name, "max_endpoint_count": 5})
    assert created.status_code == 201, created.text

    def endpoints_max() -> object:
        return HTTP.get(f"{running.admin_url}/message-vpns/{name}").json()["settings"]["max_endpoint_count"]

    go(page, f"message-vpns/{name}")
    page.get_by_role("button", name="Edit").click()
    dialog = page.locator("dialog[open]")
    for unlimited in ("max_connection_count", "usage_bytes_max"):
        expect(dialog.locator(f"[name={unlimited}]")).to_have_value("no limit")
    expect(dialog.locator("[name=max_endpoint_count]")).to_have_value("5")
    answer(page, "Change", max_endpoint_count="6")
    assert endpoints_max() == 6
    expect(page.locator("#page")).to_contain_text("maximum connection countno limit")

    page.get_by_role("button", name="Edit").click()
    answer(page, "Change", max_endpoint_count="no limit")
    expect(page.locator("#page")).to_contain_text("maximum endpoint countno limit")
    assert endpoints_max() == 2**40

    go(page, "profiles")
    page.get_by_role("button", name="New client profile").click()
    answer(page, "Create", name=name, max_subscription_count="9")
    row(page, name, table="Client profiles").click()
    expect(dialog.locator("[name=max_connection_count]")).to_have_value("no limit")
    expect(dialog.locator("[name=max_msg_rate]")).to_have_value("no limit")
    answer(page, "Change", max_subscription_count="no limit")
    made = HTTP.get(f"{running.admin_url}/client-profiles/{name}").json()
    assert {made["max_subscription_count"], made["max_connection_count"]} == {1_000_000}
