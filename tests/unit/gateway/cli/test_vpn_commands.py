"""`sluicegate vpn` against a real admin server."""

import orjson

from sluicegate.gateway.cli.terminal.failures import FAILED, USAGE
from support.operations.memory_node import MemoryNode
from support.operations.shell import Shell


def test_a_message_vpn_lives_its_life_on_the_command_line(shell: Shell, node: MemoryNode) -> None:
    """Settings are written as in the configuration."""
    made = shell.run("vpn", "create", "sales", "usage_bytes_max=1 GiB", "allow_anonymous=false")
    assert made == "created message VPN sales\n"
    assert (node.vpns["sales"].usage_bytes_max, node.vpns["sales"].allow_anonymous) == (1 << 30, False)
    listed = shell.run("vpn", "list")
    assert "default      configuration  up" in listed
    assert "sales        operator       up" in listed
    assert shell.run("vpn", "set", "sales", "enabled=false", "max_connection_count=7") == "changed message VPN sales\n"
    shown = shell.run("vpn", "show", "sales")
    assert [" ".join(line.split()) for line in shown.splitlines()[1:4]] == [
        "origin operator",
        "state shut down",
        "enabled false",
    ]
    assert orjson.loads(shell.run("vpn", "show", "sales", "--json"))["settings"]["max_connection_count"] == 7
    assert shell.run("vpn", "delete", "sales", "--yes") == "deleted message VPN sales\n"
    assert list(node.vpns) == ["default"]


def test_deleting_one_in_use_takes_force_and_an_answer(shell: Shell, node: MemoryNode) -> None:
    """A script without a terminal says --yes."""
    shell.run("vpn", "create", "sales")
    node.full.add("sales")
    assert "standard input is not a terminal" in shell.run("vpn", "delete", "sales", expect=USAGE)
    assert "has 1 connected client" in shell.run("vpn", "delete", "sales", "--yes", expect=FAILED)
    assert shell.run("vpn", "delete", "sales", "--force", "--yes") == "deleted message VPN sales\n"


def test_impossible_changes_are_explained(shell: Shell) -> None:
    assert "there is a message VPN 'sales' already" not in shell.run("vpn", "create", "sales")
    assert "there is a message VPN 'sales' already" in shell.run("vpn", "create", "sales", expect=FAILED)
    assert "always exists" in shell.run("vpn", "delete", "default", "--yes", expect=FAILED)
    assert "there is no message VPN 'lab'" in shell.run("vpn", "delete", "lab", "--yes", expect=FAILED)
    assert "has no '='" in shell.run("vpn", "create", "lab", "enabled", expect=USAGE)
    told = shell.run("vpn", "create", "lab", "max_connections=1", expect=FAILED)
    assert "max_connection_count" in told
