"""`sluicegate rest-delivery-point` and `show rest-delivery-point` against a real admin server."""

import re
from pathlib import Path

import orjson

from sluicegate.gateway.cli.terminal.failures import FAILED, USAGE
from support.operations.shell import Shell


def test_a_point_is_made_from_words_changed_in_one_place_and_deleted(shell: Shell) -> None:
    words = ["queue_bindings=[{queue: q, post_request_target: /in}]", "rest_consumers=[{name: a, remote_host: h}]"]
    assert shell.run("rest-delivery-point", "create", "p", *words) == "created REST delivery point p\n"
    changed = orjson.loads(
        shell.run("rest-delivery-point", "set", "p", "rest_consumers.0.remote_port=8443", "enabled=false", "--json")
    )
    assert changed["definition"]["rest_consumers"][0]["remote_port"] == 8443
    assert changed["definition"]["queue_bindings"][0]["queue"] == "q"
    assert (changed["enabled"], changed["origin"]) == (False, "operator")
    told = shell.run("rest-delivery-point", "show", "p")
    assert "post_request_target" in told
    assert re.search(r"^enabled +false *$", told, re.MULTILINE), "as it is written in a file"
    assert shell.run("rest-delivery-point", "delete", "p") == "deleted REST delivery point p\n"
    assert "there is no REST delivery point 'p'" in shell.run("rest-delivery-point", "show", "p", expect=FAILED)


def test_a_point_is_made_from_a_file(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "point.yaml"
    file.write_text("rest_consumers:\n  - name: a\n    remote_host: h\n")
    shell.run("rest-delivery-point", "create", "p", "--file", str(file), "rest_consumers.0.http_method=put")
    shown = orjson.loads(shell.run("rest-delivery-point", "show", "p", "--json"))
    assert shown["definition"]["rest_consumers"][0]["http_method"] == "put"
    file.write_text("rest_consumers: [")
    assert "this is not YAML" in shell.run("rest-delivery-point", "create", "x", "--file", str(file), expect=USAGE)


def test_errors_are_reported_with_their_key(shell: Shell) -> None:
    said = shell.run("rest-delivery-point", "create", "p", "rest_consumer=[]", expect=FAILED)
    assert "rest_consumer: there is no such key (did you mean 'rest_consumers'?); allowed: name, enabled" in said
    assert "'enabled' has no '='" in shell.run("rest-delivery-point", "set", "billing", "enabled", expect=USAGE)
    assert "the list has 1 items" in shell.run(
        "rest-delivery-point", "set", "billing", "rest_consumers.7.name=x", expect=USAGE
    )
