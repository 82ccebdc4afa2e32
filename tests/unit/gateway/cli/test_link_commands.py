"""`sluicegate link` and `show links` against a real admin server."""

import re

import orjson

from sluicegate.gateway.cli.terminal.failures import FAILED, USAGE
from support.operations.shell import Shell


def test_a_link_is_made_from_words_changed_and_deleted(shell: Shell) -> None:
    made = shell.run("link", "create", "office", "url=flow://office.example", "vpns.sales=shop", "dead_time_ms=5000")
    assert made == "created the link to office\n"
    shown = orjson.loads(shell.run("link", "show", "office", "--json"))
    assert shown["definition"]["url"] == "flow://office.example"
    assert shown["definition"]["vpns"] == {"sales": "shop"}

    changed = orjson.loads(shell.run("link", "set", "office", "enabled=false", "--json"))
    assert (changed["enabled"], changed["origin"]) == (False, "operator")
    assert changed["definition"]["dead_time_ms"] == 5000, "what was not named stays"
    told = shell.run("link", "show", "office")
    assert re.search(r"^state +Disabled *$", told, re.MULTILINE)
    listed = shell.run("show", "links")
    assert re.search(r"^office +\(operator\) +Disabled", listed, re.MULTILINE)
    assert "Broker : a (network: default)" in listed
    assert shell.run("link", "delete", "office") == "deleted the link to office\n"
    assert "there is no link 'office'" in shell.run("link", "show", "office", expect=FAILED)


def test_a_neighbor_is_forgotten_after_its_link_was_deleted(shell: Shell) -> None:
    shell.run("link", "create", "office", "url=flow://office.example")
    assert "there is a link to office" in shell.run("link", "forget", "office", "--force", expect=FAILED)
    shell.run("link", "delete", "office")
    assert "1 messages wait for office" in shell.run("link", "forget", "office", expect=FAILED)
    assert shell.run("link", "forget", "office", "--force") == "forgot neighbor office\n"
    assert "there is no link 'office'" in shell.run("link", "forget", "office", "--force", expect=FAILED)


def test_errors_are_reported_with_their_key(shell: Shell) -> None:
    said = shell.run("link", "create", "office", "uri=flow://office.example", expect=FAILED)
    assert "uri: there is no such key (did you mean 'url'?)" in said
    said = shell.run("link", "create", "office", "url=mqtt://office.example", expect=FAILED)
    assert "is no URL of a broker: flow://HOST[:PORT]" in said
    assert "'enabled' has no '='" in shell.run("link", "create", "office", "enabled", expect=USAGE)
