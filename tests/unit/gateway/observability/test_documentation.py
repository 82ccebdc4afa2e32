"""The tables of metrics and events in docs/operations.md agree with the code."""

import re
from pathlib import Path

from sluicegate.gateway.observability.metrics import METRICS
from sluicegate.messaging.observability import events

PAGE = Path(__file__).resolve().parents[4] / "docs" / "operations.md"
ROW = re.compile(r"^\| `(sluicegate_[a-z_]+)` \| ([a-z]+) \| ([a-z_, ]*) ?\| ", re.MULTILINE)


def test_every_metric_stands_in_the_page_with_its_type_and_labels() -> None:
    written = [(name, kind, labels.strip()) for name, kind, labels in ROW.findall(PAGE.read_text(encoding="utf-8"))]
    assert written == [(each.name, each.type, ", ".join(each.labels)) for each in METRICS]


def test_the_page_names_no_metric_that_there_is_not() -> None:
    named = set(re.findall(r"sluicegate_[a-z_]+", PAGE.read_text(encoding="utf-8")))
    assert named - {each.name for each in METRICS} == set()


EVENT_ROW = re.compile(r"^\| `((?:SYSTEM|VPN|CLIENT)_[A-Z_]+)` \| ([a-z]+) \| \S", re.MULTILINE)


def test_every_event_stands_in_the_page_with_its_level() -> None:
    kinds = [each for each in vars(events).values() if isinstance(each, events.EventKind)]
    written = EVENT_ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert written == [(each.name, each.level.lower()) for each in kinds]


def test_the_page_names_no_event_that_there_is_not() -> None:
    named = set(re.findall(r"`((?:SYSTEM|VPN|CLIENT)_[A-Z_]+)`", PAGE.read_text(encoding="utf-8")))
    known = {each.name for each in vars(events).values() if isinstance(each, events.EventKind)}
    assert named - known == set()
