"""`sluicegate replication` against a real admin server."""

from dataclasses import replace

import orjson
import pytest

from sluicegate.gateway.cli.terminal.failures import FAILED
from support.operations.memory_node import MemoryNode
from support.operations.replica_views import LONDON
from support.operations.shell import Shell


@pytest.fixture
def standby(node: MemoryNode) -> MemoryNode:
    node.replication = LONDON
    return node


def test_status_says_which_site_is_active_and_what_the_other_lacks(shell: Shell, standby: MemoryNode) -> None:
    said = shell.run("replication", "status")
    assert "broker orders, asked at replica a of site london" in said
    assert "site london: standby, epoch 3, receives here" in said
    assert "site paris: active, epoch 3" in said
    assert "lag: 12 messages of the log, 2.0 KiB, the oldest 1.2 s old" in said
    assert "what site london alone had: /data/surplus-london-epoch-2.jsonl" in said
    assert orjson.loads(shell.run("replication", "status", "--json"))["lag_messages"] == 12


def test_status_says_what_is_not_known(shell: Shell, standby: MemoryNode) -> None:
    standby.replication = replace(
        LONDON, mate_role="", lag_messages=None, lag_bytes=None, lag_seconds=None, problem="no server answers"
    )
    said = shell.run("replication", "status")
    assert "site paris: does not answer" in said
    assert "lag: not known" in said
    assert "problem: no server answers" in said


def test_a_site_is_promoted_when_it_has_all_or_a_loss_is_accepted(shell: Shell, standby: MemoryNode) -> None:
    assert "does not end with a hand-over" in shell.run("replication", "promote", expect=FAILED)
    assert "the site is promoted" in shell.run("replication", "promote", "--accept-loss")
    standby.replication = replace(LONDON, ends_with_handover=True)
    assert "site london has all of the log, and may be promoted" in shell.run("replication", "status")
    shell.run("replication", "promote")
    assert standby.replication.role == "active"


def test_a_site_is_demoted(shell: Shell, standby: MemoryNode) -> None:
    assert "the site is demoted" in shell.run("replication", "demote")
    assert "site london: demoting" in shell.run("replication", "status")


def test_a_broker_without_replicas_has_no_sites(shell: Shell) -> None:
    assert "this broker has no replicas" in shell.run("replication", "status", expect=FAILED)
