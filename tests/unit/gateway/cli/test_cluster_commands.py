"""`sluicegate cluster` against a real admin server."""

import re
from dataclasses import replace

import orjson
import pytest

from sluicegate.gateway.cli.terminal.failures import FAILED, USAGE
from support.operations.memory_node import MemoryNode
from support.operations.replica_views import ORDERS
from support.operations.shell import Shell


@pytest.fixture
def replicas(node: MemoryNode) -> MemoryNode:
    node.cluster = ORDERS
    return node


def test_status_says_who_owns_the_broker_and_how_far_the_others_are(shell: Shell, replicas: MemoryNode) -> None:
    said = shell.run("cluster", "status")
    assert "broker orders, owned by b, epoch 7" in said
    assert "log: stream SLUICEGATE_orders, 3.0 MiB of 1.0 GiB, feature level 1" in said
    assert re.search(r"^a +standby +true +12 +2\.0 KiB +7 +1\.0 +2 +http://a:8080", said, re.MULTILINE)
    assert re.search(r"^c +away +false .*nothing was heard of it lately", said, re.MULTILINE)
    assert orjson.loads(shell.run("cluster", "status", "--json"))["owner"] == "b"


def test_status_shows_the_newest_snapshot_and_why_none_follows(shell: Shell, replicas: MemoryNode) -> None:
    said = shell.run("cluster", "status")
    assert "newest snapshot: 2026-11-27T23:00:00Z, 1.0 MiB; 2.0 MiB of the log since" in said
    assert "no snapshot could be made 2026-11-27T23:01:00Z: the disk is full" in said
    assert replicas.cluster is not None
    assert replicas.cluster.log is not None
    replicas.cluster = replace(replicas.cluster, log=replace(replicas.cluster.log, snapshot_position=0))
    assert "no snapshot yet: the log has everything" in shell.run("cluster", "status")


def test_a_standby_is_told_to_take_over(shell: Shell, replicas: MemoryNode) -> None:
    assert shell.run("cluster", "handover", "--to", "a") == "the broker is handed over to a\n"
    assert "owned by a" in shell.run("cluster", "status")
    assert "replica 'x' is not there" in shell.run("cluster", "handover", "--to", "x", expect=FAILED)


def test_a_broker_without_replicas_says_so(shell: Shell) -> None:
    said = shell.run("cluster", "status", expect=FAILED)
    assert "this broker has no replicas: its configuration names no cluster.servers" in said


def test_all_brokers_of_the_cluster_are_shown_and_go_where_they_are_preferred(
    shell: Shell, replicas: MemoryNode
) -> None:
    said = shell.run("cluster", "status", "--all")
    assert re.search(r"^orders +7 +a +standby +true +12 +2\.0 KiB", said, re.MULTILINE)
    assert "broker orders is owned by b, and could be by a, which comes first" in said
    assert orjson.loads(shell.run("cluster", "status", "--all", "--json"))["brokers"][0]["preferred"] == "a"
    assert shell.run("cluster", "handover", "--preferred") == "orders is handed over to a\n"
    assert shell.run("cluster", "handover", "--preferred") == ""
    assert "without a broker and --to" in shell.run("cluster", "handover", "orders", "--preferred", expect=USAGE)


def test_a_broker_is_handed_over_by_its_name(shell: Shell, replicas: MemoryNode) -> None:
    assert shell.run("cluster", "handover", "orders", "--to", "a") == "orders is handed over to a\n"
    assert "no owner answers" in shell.run("cluster", "handover", "stock", "--to", "a", expect=FAILED)


def test_replicas_are_added_and_removed(shell: Shell, replicas: MemoryNode) -> None:
    shell.run("cluster", "add", "d", "--before", "b")
    assert [each["name"] for each in orjson.loads(shell.run("cluster", "status", "--json"))["replicas"]] == list("adbc")
    assert "is a replica of this broker already" in shell.run("cluster", "add", "d", expect=FAILED)
    assert "'d e' is not allowed" in shell.run("cluster", "add", "d e", expect=FAILED)
    shell.run("cluster", "remove", "d")
    assert "'b' owns the broker" in shell.run("cluster", "remove", "b", expect=FAILED)
