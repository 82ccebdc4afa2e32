"""A page of HTML with the findings of a job: one file without server, network and scripts.

What stands on it is the jobs' matter, in files called after them; how plots are drawn is `charts`'.
"""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias, final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

_PAGES: Final = Environment(
    loader=PackageLoader("sluicegate.pipeline.report", ""), autoescape=True, undefined=StrictUndefined, trim_blocks=True
)


@final
@dataclass(frozen=True)
class Fact:
    """A number or a word at the top of the page."""

    label: str
    value: str
    is_bad: bool = False


@final
@dataclass(frozen=True)
class Plot:
    """A picture and its description."""

    title: str
    says: str
    svg: str  # of `charts`

    @property
    def markup(self) -> Markup:
        """The picture as a part of the page."""
        return Markup(self.svg)


@final
@dataclass(frozen=True)
class Table:
    """Rows under headings."""

    title: str
    says: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: frozenset[int] = frozenset()  # which columns stand to the right


Part: TypeAlias = Plot | Table


@final
@dataclass(frozen=True, kw_only=True)
class Report:
    """The contents of the page."""

    title: str
    verdict: str  # one line
    is_good: bool
    about: Sequence[tuple[str, str]]  # what was looked at, by name
    facts: Sequence[Fact]
    parts: Sequence[Part]


def html_of(report: Report, made_at: datetime) -> str:
    """Return the page."""
    return _PAGES.get_template("page.html").render(
        report=report,
        made_at=made_at.strftime("%Y-%m-%d %H:%M:%S UTC"),
        plots=[each for each in report.parts if isinstance(each, Plot)],
        tables=[each for each in report.parts if isinstance(each, Table)],
    )


def write_report(report: Report, path: str) -> None:
    """Write the page as a file of this host, atomically. Raises OSError."""
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    page = html_of(report, datetime.now(UTC))
    with tempfile.NamedTemporaryFile("w", dir=place.parent, delete=False, encoding="utf-8") as file:
        file.write(page)
    Path(file.name).chmod(0o644)  # temporary files are for their owner alone
    os.replace(file.name, place)


def count(number: float) -> str:
    """Return a number as text, with commas."""
    return f"{number:,.0f}"
