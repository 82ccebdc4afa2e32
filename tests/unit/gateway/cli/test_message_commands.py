"""`sluicegate queue move-messages|copy-messages|delete-messages|redrive` against a real admin server."""

import orjson
import pytest

from sluicegate.gateway.cli.terminal.failures import FAILED, USAGE
from support.operations.memory_node import MemoryNode
from support.operations.running_admin import RunningAdmin
from support.operations.shell import Shell


@pytest.fixture
def shell(admin: RunningAdmin, node: MemoryNode) -> Shell:
    """A shell, and two queues, the first with three messages."""
    shell = Shell(admin.url)
    for name in ("q", "other"):
        shell.run("queue", "create", name)
    for payload in (b"one", b"two", b"three"):
        node.publish("q", payload)
    return shell


def test_messages_are_moved_copied_and_deleted_by_id(shell: Shell, node: MemoryNode) -> None:
    assert (
        shell.run("queue", "move-messages", "q", "other", "0:1", "0:9") == "1 message moved to other\nnot found: 0:9\n"
    )
    assert shell.run("queue", "copy-messages", "q", "other", "0:2") == "1 message copied to other\n"
    assert shell.run("queue", "delete-messages", "q", "0:3") == "1 message deleted\n"
    assert [message.payload for message in node.messages["q"]] == ["two"]


def test_no_selection_of_messages_is_deleted_without_a_yes(shell: Shell, node: MemoryNode) -> None:
    assert "nothing was changed" in shell.run("queue", "delete-messages", "q", answered="n\n", expect=FAILED)
    assert len(node.messages["q"]) == 3
    assert shell.run("queue", "delete-messages", "q", "--limit", "2", "--yes") == "2 messages deleted\n"


def test_a_script_that_deletes_without_a_yes_is_refused_and_not_asked(shell: Shell, node: MemoryNode) -> None:
    for command in (("delete-messages", "q", "--selector", "color = 'red'"), ("purge", "q"), ("delete", "q")):
        said = shell.run("queue", *command, typed="y\n", expect=USAGE)
        assert "standard input is not a terminal" in said
        assert "--yes skips the confirmation" in said
        assert "?" not in said
    assert len(node.messages["q"]) == 3


def test_a_redrive_is_begun_shown_and_ended(shell: Shell) -> None:
    begun = "running: 0 messages moved back to the original queues, position 0:1\n"
    assert shell.run("queue", "redrive", "q", "--rate", "5", "--no-wait") == begun
    assert shell.run("queue", "redrive-status", "q") == begun
    assert shell.run("queue", "redrive-cancel", "q").startswith("cancelled: ")
    assert orjson.loads(shell.run("queue", "redrive-status", "q", "--json"))["rate"] == 5


def test_messages_are_searched_until_there_are_enough(shell: Shell, node: MemoryNode) -> None:
    assert shell.run("queue", "search", "q").endswith("3 messages found, 3 examined\n")
    assert shell.run("queue", "search", "q", "--key", "k").endswith("0 messages found, 3 examined\n")
    found = shell.run("queue", "search", "q", "--limit", "2", "--json").splitlines()
    assert [orjson.loads(line)["payload"] for line in found] == ["one", "two"]
    assert "a time such as" in shell.run("queue", "search", "q", "--from", "yesterday", expect=FAILED)


def test_messages_are_published_again_and_brought_back_by_id(shell: Shell, node: MemoryNode) -> None:
    assert shell.run("queue", "republish-messages", "q", "0:1", "--remove") == "1 message published again\n"
    assert shell.run("queue", "redrive-messages", "q", "0:2", "0:9") == "1 message moved back\nnot found: 0:9\n"
    assert [message.payload for message in node.messages["q"]] == ["three"]
    shell.run("queue", "republish-messages", "q", expect=USAGE)


def test_invalid_filters_are_explained(shell: Shell) -> None:
    assert "'bored' is no reason" in shell.run(
        "queue", "move-messages", "q", "other", "--dead-reason", "bored", expect=FAILED
    )
    assert "no message id" in shell.run("queue", "move-messages", "q", "other", "7", expect=FAILED)
    shell.run("queue", "redrive", "q", "--rate", "0", expect=USAGE)
