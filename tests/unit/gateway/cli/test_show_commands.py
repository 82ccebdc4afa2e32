"""`sluicegate show client|message-spool|queue|rebalance` against a real admin server."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from sluicegate.gateway.cli.terminal.failures import FAILED
from support.operations.memory_clients import ANN
from support.operations.memory_node import MemoryNode
from support.operations.shell import Shell


def test_clients_are_shown_with_who_they_are_and_what_holds_them_up(shell: Shell, node: MemoryNode) -> None:
    node.clients = [ANN, replace(ANN, name="sensor-2", client_username="", is_paused=False)]

    lines = shell.run("show", "client").splitlines()

    assert "sensor-1  ann" in lines[1]
    assert "10.0.0.7:50123" in lines[1]
    assert "1 day, 1:01:01" in lines[1]
    assert lines[1].rstrip().endswith("paused")
    assert "sensor-2  -" in lines[2]
    assert "1 of 2 clients" in shell.run("show", "client", "--limit", "1")
    (only,) = orjson.loads(shell.run("show", "client", "sensor-2", "--json"))["clients"]
    assert only["name"] == "sensor-2"


def test_the_message_spool_is_shown_with_its_limits(shell: Shell) -> None:
    shown = shell.run("show", "message-spool")
    assert "messages in durable queues" in shown
    assert orjson.loads(shell.run("show", "message-spool", "--json"))["quarantined"] == 18


@pytest.mark.parametrize(
    ("use", "said"),
    [
        ({}, "yes, up to 1 B of payload"),
        ({"messages_bytes": 4}, "no: the usage of durable queues is at its limit"),
        ({"messages_bytes": 5}, "no: the usage of durable queues is at its limit"),  # it was more before a reload
        ({"messages_count": 8}, "no: the number of messages in durable queues is at its limit"),
        ({"messages_count": 8, "blocked": "the disk is full"}, "no: the disk is full"),
    ],
)
def test_the_message_spool_says_what_it_takes(shell: Shell, node: MemoryNode, use: dict[str, Any], said: str) -> None:
    node.spool = replace(node.spool, **use)
    assert shell.run("show", "message-spool").endswith(f"\naccepts messages: {said}\n")


def test_queues_are_shown_with_what_they_hold_and_their_totals(shell: Shell, node: MemoryNode) -> None:
    for name in ("orders/eu", "orders/us", "plain"):
        shell.run("queue", "create", name)
    node.publish("orders/eu", b"x" * 2048)

    lines = shell.run("show", "queue", "orders*").splitlines()

    assert [line.split()[0] for line in lines[1:]] == ["orders/eu", "orders/us"]
    assert "2.0 KiB" in lines[1]
    assert "showing 1 of 3 queues, starting at 2" in shell.run("show", "queue", "--after", "1", "--limit", "1")
    (only,) = orjson.loads(shell.run("show", "queue", "plain", "--json"))["queues"]
    assert only["name"] == "plain"


def test_rebalances_are_shown_partition_by_partition(shell: Shell) -> None:
    shell.run("queue", "create", "orders", "--partitions", "3")
    shell.run("queue", "create", "plain")

    lines = shell.run("show", "rebalance").splitlines()

    assert [line.split()[:5] for line in lines[1:]] == [
        ["orders", "ready", "ready", str(number), status]
        for number, status in enumerate(["ready", "unassigned", "unassigned"])
    ]
    (document,) = orjson.loads(shell.run("show", "rebalance", "orders", "--json"))
    assert (document["partition_count"], len(document["partitions"])) == (3, 3)


def test_message_vpns_are_shown_and_one_is_named_for_other_commands(shell: Shell) -> None:
    lines = shell.run("show", "message-vpn").splitlines()
    assert lines[1].split()[:4] == ["default", "Up", "2", "1"]
    assert "0 B of 7.0 MiB" in lines[1], "what is retained"
    assert orjson.loads(shell.run("show", "message-vpn", "default", "--json"))[0]["max_msg_spool_usage_bytes"] == 5
    assert "message VPN 'sales' does not exist" in shell.run("show", "message-vpn", "sales", expect=FAILED)
    assert shell.run("queue", "list", "--vpn", "default") == shell.run("queue", "list")
    assert "no message VPN 'sales'" in shell.run("queue", "list", "--vpn", "sales", expect=FAILED)


def test_what_a_queue_did_not_take_is_shown_by_reason(shell: Shell, node: MemoryNode) -> None:
    shell.run("queue", "create", "orders")
    node.refusals["orders"] = {"endpoint_usage_exceeded": 3}
    node.drops["orders"] = {"endpoint_disabled": 2, "max_msg_size_exceeded": 1}
    lines = shell.run("queue", "show", "orders").splitlines()
    assert "refused to publishers: 3 endpoint_usage_exceeded" in lines
    assert "dropped, publisher not informed: 2 endpoint_disabled, 1 max_msg_size_exceeded" in lines
    (only,) = orjson.loads(shell.run("show", "queue", "orders", "--json"))["queues"]
    assert (only["refused_total"], only["dropped_total"]) == (3, 3)
