"""`sluicegate top` and what it asks, against a real admin server."""

from dataclasses import replace

import orjson

from sluicegate.gateway.cli.admin.client import AdminClient
from sluicegate.gateway.cli.commands.node.top import Order, sample, top_view
from support.operations.memory_clients import ANN
from support.operations.memory_node import MemoryNode
from support.operations.running_admin import RunningAdmin
from support.operations.shell import Shell


def test_rates_are_what_came_between_two_looks_over_the_nodes_own_time(admin: RunningAdmin, node: MemoryNode) -> None:
    client = AdminClient(admin.url)
    for name in ("idle", "busy", "full"):
        client.create_queue({"name": name})
    for _ in range(9):
        node.publish("full", b"x")
    before = sample(client, every=False)
    node.at_ms += 2000
    for _ in range(4):
        node.publish("busy", b"x")

    view = top_view(before, sample(client, every=False), order=Order.RATE, count=2)

    assert (view.interval_ms, view.queues_count) == (2000, 3)
    assert [(each.queue.name, each.accepted_rate) for each in view.queues] == [("busy", 2.0), ("full", 0.0)]
    assert (view.protocols[0].messages_received_rate, view.protocols[0].messages_sent_rate) == (1000.0, 2000.0)
    assert view.cpu_share == 0.25
    full_first = top_view(before, sample(client, every=False), order=Order.BACKLOG, count=3)
    assert [each.queue.name for each in full_first.queues] == ["full", "busy", "idle"]


def test_totals_that_fell_make_no_rate(admin: RunningAdmin, node: MemoryNode) -> None:
    client = AdminClient(admin.url)
    node.at_ms = 50_000
    before = sample(client, every=False)
    node.at_ms = 2000

    view = top_view(before, sample(client, every=False), order=Order.NAME, count=1)

    assert view.protocols[0].messages_received_rate == 0


def test_top_prints_once_without_a_terminal(shell: Shell, node: MemoryNode) -> None:
    shell.run("queue", "create", "orders", "--partitions", "3")
    node.publish("orders", b"x")
    node.clients = [replace(ANN, name="evil\x1b[2J" + "n" * 60)]

    shown = shell.run("top", "--interval", "0.2")

    assert "release 1" in shown
    assert "process 1.0 MiB" in shown
    assert "1 of 1 queues" in shown
    (orders,) = [line.split() for line in shown.splitlines() if line.startswith("orders")]
    assert orders[4] == "1"
    assert "evil\\x1b[2Jnn" in shown
    assert "…" in shown


def test_top_prints_json_that_programs_can_read(shell: Shell) -> None:
    shell.run("queue", "create", "orders")
    document = orjson.loads(shell.run("top", "--once", "--interval", "0.2", "--json"))
    assert document["queues"][0]["queue"]["name"] == "orders"
    assert document["spool"]["messages_count_max"] == 8


def test_figures_of_queues_come_in_pages(admin: RunningAdmin) -> None:
    for name in ("a", "b", "c"):
        admin.ask("POST", "/queues", {"name": name})
    answer = admin.ask("GET", "/figures/queues?after=1&limit=1").json()
    assert answer["total_count"] == 3
    assert [each["name"] for each in answer["queues"]] == ["b"]  # type: ignore[attr-defined]  # a list
    assert admin.ask("GET", "/figures/queues?limit=0").status == 422
