"""The tables of metrics in docs/operate/metrics.md and of events in docs/operate/events.md agree with the code."""

import re
from pathlib import Path
from typing import Final

import pytest

from sluicegate.gateway.observability.metrics.table import METRICS
from sluicegate.messaging.observability import events

DOCS = Path(__file__).resolve().parents[4] / "docs" / "operate"
PAGES: Final = ["alerts.md", "events.md", "metrics.md", "operations.md", "recovery.md"]
ROW = re.compile(r"^\| `(sluicegate_[a-z_]+)` \| ([a-z]+) \| ([a-z_, ]*?) ?\| (.*) \|$", re.MULTILINE)
FORMER_ROW = re.compile(r"^\| `(sluicegate_[a-z_]+)` \| `(sluicegate_[a-z_]+)` \|$", re.MULTILINE)
EVENT_ROW = re.compile(r"^\| `((?:SYSTEM|VPN|CLIENT)_[A-Z_]+)` \| ([a-z]+) \| \S", re.MULTILINE)


def test_the_page_has_every_metric_with_its_type_labels_and_meaning() -> None:
    written = ROW.findall((DOCS / "metrics.md").read_text(encoding="utf-8"))
    assert written == [(each.name, each.type, ", ".join(each.labels), each.help) for each in METRICS]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_for_operators_names_only_metrics_that_exist(page: str) -> None:
    named = set(re.findall(r"sluicegate_[a-z_]+", (DOCS / page).read_text(encoding="utf-8")))
    named = {each.removesuffix("_bucket") for each in named}
    assert named - {each.name for each in METRICS} - {each.former_name for each in METRICS} == set()


def test_the_page_has_every_deprecated_name_with_the_new_one() -> None:
    written = FORMER_ROW.findall((DOCS / "metrics.md").read_text(encoding="utf-8"))
    assert written == [(each.former_name, each.name) for each in METRICS if each.former_name]


def test_the_page_has_every_event_with_its_level() -> None:
    kinds = [each for each in vars(events).values() if isinstance(each, events.EventKind)]
    written = EVENT_ROW.findall((DOCS / "events.md").read_text(encoding="utf-8"))
    assert written == [(each.name, each.level.lower()) for each in kinds]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_for_operators_names_only_events_that_exist(page: str) -> None:
    named = set(re.findall(r"`((?:SYSTEM|VPN|CLIENT)_[A-Z_]+)`", (DOCS / page).read_text(encoding="utf-8")))
    known = {each.name for each in vars(events).values() if isinstance(each, events.EventKind)}
    assert named - known == set()
