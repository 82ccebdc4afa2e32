"""Durable selectors and reloads over the admin port and from the command line."""

from dataclasses import replace

import orjson

from sluicegate.gateway.cli.terminal.failures import FAILED
from sluicegate.gateway.views.node.runtime import ReloadView
from support.operations.memory_node import MemoryNode
from support.operations.running_admin import RunningAdmin
from support.operations.shell import Shell

RELOADED = ReloadView(taken_over=("log.level: info -> debug",), restart_needed=("admin.port: 1 -> 2",), warnings=("w",))


def test_durable_selectors_are_set_listed_and_forgotten(admin: RunningAdmin) -> None:
    """Section 7: exportable as JSON."""
    shell = Shell(admin.url)
    shell.run("queue", "create", "q")
    assert shell.run("selector", "set", "q", "a/b", "x = 1", "").strip() == "a/b of q selects x = 1 | (everything)"
    assert "(everything)" in shell.run("selector", "list")
    [kept] = orjson.loads(shell.run("selector", "list", "--json"))
    assert kept == {"queue": "q", "subscriber": "a/b", "selectors": ["x = 1", ""], "seen_ms": 1}
    assert shell.run("selector", "delete", "q", "a/b").strip() == "deleted the selectors of a/b of q"
    assert "has no durable selector of 'a/b'" in shell.run("selector", "delete", "q", "a/b", expect=FAILED)


def test_a_reload_says_what_it_took_over(admin: RunningAdmin, node: MemoryNode) -> None:
    shell = Shell(admin.url)
    node.reloads = [replace(RELOADED, taken_over=()), RELOADED, RELOADED]  # the last one first
    assert shell.run("reload").strip().endswith("log.level: info -> debug")
    assert orjson.loads(shell.run("reload", "--json"))["restart_needed"] == ["admin.port: 1 -> 2"]
    assert shell.run("reload").strip().endswith("no change was applied")
    assert "the configuration is wrong" in shell.run("reload", expect=FAILED)


def test_selectors_are_texts(admin: RunningAdmin) -> None:
    admin.ask("POST", "/queues", {"name": "q"})
    assert admin.ask("PUT", "/queues/q/selectors/c", {"selectors": "x"}).status == 422
    assert admin.ask("PUT", "/queues/none/selectors/c", {"selectors": ["x = 1"]}).status == 404
    assert admin.ask("PUT", "/queues/q/selectors/c", {"selectors": ["x = 1"]}).status == 204
