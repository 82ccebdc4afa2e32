"""The table of metrics in docs/operations.md is the one in gateway.observability.metrics."""

import re
from pathlib import Path

from sluicegate.gateway.observability.metrics import METRICS

PAGE = Path(__file__).resolve().parents[4] / "docs" / "operations.md"
ROW = re.compile(r"^\| `(sluicegate_[a-z_]+)` \| ([a-z]+) \| ([a-z_, ]*) ?\| ", re.MULTILINE)


def test_every_metric_stands_in_the_page_with_its_type_and_labels() -> None:
    written = [(name, kind, labels.strip()) for name, kind, labels in ROW.findall(PAGE.read_text(encoding="utf-8"))]
    assert written == [(each.name, each.type, ", ".join(each.labels)) for each in METRICS]


def test_the_page_names_no_metric_that_there_is_not() -> None:
    named = set(re.findall(r"sluicegate_[a-z_]+", PAGE.read_text(encoding="utf-8")))
    assert named - {each.name for each in METRICS} == set()
