"""The two commands of docs/network.md start two brokers on one machine that link to each other."""

import re
import shlex
from itertools import pairwise
from pathlib import Path

from sluicegate.gateway.config.load import load
from sluicegate.gateway.config.model import Config

PAGE = Path(__file__).resolve().parents[4] / "docs" / "network.md"


def brokers() -> list[Config]:
    """Load the configuration of each command."""
    text = PAGE.read_text(encoding="utf-8").replace("\\\n", " ")
    commands = [shlex.split(line) for line in re.findall(r"^sluicegate serve .*$", text, re.MULTILINE)]
    return [load(settings=[value for option, value in pairwise(command) if option == "--set"]) for command in commands]


def ports(config: Config) -> set[int]:
    """Return every port that a broker opens."""
    return {listener.port for listener in config.listeners.enabled().values()} | {config.admin.port}


def test_two_brokers_on_one_machine_share_neither_ports_nor_folders() -> None:
    a, b = brokers()
    assert not ports(a) & ports(b)
    assert a.data.path != b.data.path


def test_one_of_them_connects_to_the_other_which_lets_it_in() -> None:
    a, b = brokers()
    assert (a.node.name, b.node.name) == ("a", "b")
    assert a.links["b"].url == f"flow://127.0.0.1:{b.listeners.flow.port}"
    assert b.links["a"].url == ""
    [profile] = b.authentication.client_profiles
    assert (profile.name, profile.allow_bridge_connections_enabled) == ("default", True)
