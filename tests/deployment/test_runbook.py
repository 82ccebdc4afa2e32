"""The runbook leads from each alert to its cause, by commands and names that exist."""

import re
from typing import Any, Final

import typer.main

from sluicegate.gateway.cli import app
from sluicegate.gateway.cli.late_commands import COMMANDS
from sluicegate.gateway.observability.metrics.table import METRIC_BY_NAME
from support.operations.manifests import K8S, files

PAGE: Final = K8S.parents[1] / "docs" / "operate" / "alerts.md"
SECTION: Final = re.compile(r"^## When an alert fires\n(.*?)^## ", re.MULTILINE | re.DOTALL)
COMMAND: Final = re.compile(r"`sluicegate\s+([^`]+)`")


def section() -> str:
    page = PAGE.read_text(encoding="utf-8")
    found = SECTION.search(page)
    assert found is not None
    return found[1]


def command(words: list[str]) -> Any:
    """Return the command that words of a command line name. Raises KeyError where there is none."""
    group: Any = typer.main.get_command(app)
    found = group.get_command(None, words[0])
    if found is None:
        raise KeyError(words[0])
    return found.commands[words[1]] if hasattr(found, "commands") else found


def test_each_alert_is_led_from() -> None:
    alerts = [rule["alert"] for rule in files("monitoring/prometheusrule.yaml")[0]["spec"]["groups"][0]["rules"]]
    assert sorted(re.findall(r"^- \*\*(\w+)\*\*:", section(), re.MULTILINE)) == sorted(alerts)
    assert set(re.findall(r"\*(Sluicegate\w+)\*", section())) == set(alerts)


def test_commands_and_metrics_of_the_runbook_are_there() -> None:
    """Of what stands between backticks and begins with the command's name."""
    asked = [found.split() for found in COMMAND.findall(section())]
    asked = [words for words in asked if words[0] != "..."]
    assert len(asked) > 15
    assert COMMANDS.keys() >= {words[0] for words in asked}
    for words in asked:
        assert command(words) is not None
    assert METRIC_BY_NAME.keys() >= set(re.findall(r"sluicegate_\w+", section()))


def test_places_that_the_runbook_refers_to_are_there() -> None:
    places = re.findall(r"\]\(([\w./-]*)#([\w-]+)\)", section())
    assert len(places) > 5
    for page, place in places:
        text = (PAGE.parent / (page or PAGE.name)).read_text(encoding="utf-8")
        headings = [each.lower().replace(" ", "-") for each in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
        assert place in headings, (page, place)


def test_the_page_lists_the_former_name_of_each_renamed_alert() -> None:
    """Routes and silences match on the label until operators have changed them."""
    rules = files("monitoring/prometheusrule.yaml")[0]["spec"]["groups"][0]["rules"]
    renamed = {rule["labels"]["former_alertname"]: rule["alert"] for rule in rules if len(rule["labels"]) > 1}
    page = PAGE.read_text(encoding="utf-8")
    assert dict(re.findall(r"^\| `(Sluicegate\w+)` \| `(Sluicegate\w+)` \|$", page, re.MULTILINE)) == renamed
    assert len(renamed) == 12
