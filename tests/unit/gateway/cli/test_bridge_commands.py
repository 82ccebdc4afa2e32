"""`sluicegate bridge` and `show bridge` against a real admin server."""

from pathlib import Path

import orjson

from sluicegate.gateway.cli.terminal.failures import FAILED
from support.operations.shell import Shell


def test_a_bridge_is_made_from_words_changed_in_one_place_and_deleted(shell: Shell) -> None:
    words = ["remote_url=mqtt://plant.example", "outgoing=[{queue: q, add_prefix: hq/}]"]
    assert shell.run("bridge", "create", "b", *words) == "created bridge b\n"
    changed = orjson.loads(shell.run("bridge", "set", "b", "outgoing.0.qos=2", "retry_delay_s=9", "--json"))
    assert changed["definition"]["outgoing"][0]["qos"] == 2
    assert changed["definition"]["retry_delay_s"] == 9
    told = shell.run("bridge", "show", "b")
    assert "mqtt://plant.example" in told
    assert "waiting: connection refused" in told
    assert shell.run("bridge", "delete", "b") == "deleted bridge b\n"
    assert "there is no bridge 'b'" in shell.run("bridge", "show", "b", expect=FAILED)


def test_a_bridge_is_made_from_a_file(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "bridge.yaml"
    file.write_text("remote_url: mqtt://plant.example\nincoming:\n  - remote_topic: alarms/#\n")
    shell.run("bridge", "create", "b", "--file", str(file), "incoming.0.qos=0")
    shown = orjson.loads(shell.run("bridge", "show", "b", "--json"))
    assert shown["definition"]["incoming"][0]["qos"] == 0


def test_a_bridge_is_paused_and_resumed(shell: Shell) -> None:
    assert shell.run("bridge", "pause", "plant") == "paused bridge plant\n"
    assert "paused" in shell.run("bridge", "show", "plant")
    assert shell.run("bridge", "resume", "plant") == "resumed bridge plant\n"
    assert "waiting" in shell.run("bridge", "show", "plant")


def test_show_bridge_says_what_each_rule_carries_and_why_it_does_not(shell: Shell) -> None:
    """Solace 9.4: show bridge."""
    told = shell.run("show", "bridge")
    for text in ("mqtt://plant.example", "Waiting", "connection refused", "queue orders", "hq/", "topic alarms/#"):
        assert text in told
    assert "messages 4" in told
    assert "unmapped 1" in told
    assert '"state":"waiting"' in shell.run("show", "bridge", "--json")


def test_errors_are_reported_with_their_key(shell: Shell) -> None:
    said = shell.run("bridge", "create", "b", "remote_url=http://x", expect=FAILED)
    assert "remote_url" in said
    assert "is no URL of a broker" in said
