"""Pages that jobs write: whole in one file, and what senders wrote does nothing on them."""

import functools
import stat
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

from sluicegate.pipeline.report.charts import LINES_MAX, Bar, Line, bars, columns, lines_over, lines_over_time
from sluicegate.pipeline.report.page import Fact, Plot, Report, Table, html_of, write_report
from support.storage.spool_file import same_imports

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
NASTY = '<script src="http://elsewhere.example/x.js">&amp;'


def report(*parts: Plot | Table, title: str = "Audit") -> Report:
    return Report(
        title=title,
        verdict="3 lost",
        is_good=False,
        about=(("came in", NASTY),),
        facts=(Fact(NASTY, "1,000", is_bad=True),),
        parts=parts,
    )


@functools.cache
def pictures() -> list[str]:
    return drawn()


def drawn() -> list[str]:
    times = [NOW + timedelta(minutes=each) for each in range(30)]
    return [
        lines_over_time([Line(NASTY, times, range(30)), Line("b", times[:5], [1] * 5, is_bad=True)], says="messages"),
        lines_over_time([Line("one", times[:1], [5])], says="messages"),
        lines_over(
            [Line(f"a sensor with a long name, {each}" * 2, range(64), [each] * 64) for each in range(LINES_MAX)],
            across="n",
            says="x",
        ),
        columns([Bar(f"{each} ms", each) for each in range(20)], across=NASTY, says="messages"),
        bars([Bar(NASTY, 3), Bar("b", 1, is_bad=True)], says="messages"),
        bars([], says="messages"),
    ]


def test_a_picture_is_well_formed_small_and_the_same_each_time() -> None:
    for picture in pictures():
        root = ElementTree.fromstring(picture)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert len(picture) < 60_000
        assert "Date" not in picture
    assert drawn() == pictures()


def test_texts_of_senders_are_escaped(tmp_path: Path) -> None:
    table = Table("Examples", NASTY, ("what", NASTY), [(NASTY, "1")], frozenset((1,)))
    page = html_of(report(*(Plot("P", NASTY, each) for each in pictures()), table, title=NASTY), NOW)
    assert "<script" not in page
    assert page.count("<svg") == 6
    assert "2026-03-04 05:06:07 UTC" in page


def test_a_page_makes_no_request() -> None:
    asked: list[str | None] = []

    class Asking(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            asked.extend(value for name, value in attrs if name in ("src", "href", "xlink:href"))

    page = html_of(report(*(Plot("P", "", each) for each in pictures())), NOW)
    Asking().feed(page)
    assert [each for each in asked if not str(each).startswith("#")] == []
    assert "url(http" not in page


def test_a_page_replaces_the_one_before_and_everybody_may_read_it(tmp_path: Path) -> None:
    file = tmp_path / "new folder" / "audit.html"
    for title in ("first", "second"):
        write_report(report(title=title), str(file))
    assert "<title>second</title>" in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert list(file.parent.iterdir()) == [file]


def test_a_job_begins_without_what_draws_its_page() -> None:
    """Matplotlib is half of what a job imports; most jobs have no page, and one that has may have waited for hours."""
    command = [sys.executable, "-P", "-c", "import sluicegate.pipeline.cli, sys; print(*sys.modules)"]
    imported = subprocess.run(command, capture_output=True, text=True, env=same_imports(), timeout=60).stdout.split()
    assert "sluicegate.pipeline.jobs.aggregate.job" in imported
    assert "matplotlib" not in imported
