"""Commands in a locale whose encoding lacks characters of what they print."""

import json
import os
import subprocess
import sys

import pytest

from support.operations.memory_node import MemoryNode
from support.operations.shell import Shell

COMMAND = "from sluicegate.gateway.cli import main; main()"
NAME = "\u00fcbung-\u0434"


def printed(shell: Shell, encoding: str, *arguments: str) -> bytes:
    environment = os.environ | {"SLUICEGATE_URL": shell.url, "PYTHONIOENCODING": encoding, "XDG_CONFIG_HOME": "/none"}
    command = [sys.executable, "-c", COMMAND, *arguments]
    ended = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")
    return ended.stdout


@pytest.mark.parametrize(
    ("encoding", "name"), [("ascii", rb"\xfcbung-\u0434"), ("latin-1", b"\xfcbung-\\u0434"), ("utf-8", NAME.encode())]
)
def test_characters_that_the_locale_lacks_are_escaped(
    shell: Shell, node: MemoryNode, encoding: str, name: bytes
) -> None:
    shell.run("queue", "create", NAME)
    assert name in printed(shell, encoding, "queue", "list")


def test_json_is_utf_8_in_every_locale(shell: Shell, node: MemoryNode) -> None:
    shell.run("queue", "create", NAME)
    assert json.loads(printed(shell, "ascii", "queue", "list", "--json"))[0]["config"]["name"] == NAME
