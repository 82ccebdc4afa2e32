"""The report of an audit."""

from typing import Final

from sluicegate.pipeline.archive.reader import Archived
from sluicegate.pipeline.jobs.audit.findings import (
    DUPLICATED,
    FOREIGN,
    LOST,
    OUT_OF_ORDER,
    UNIDENTIFIED,
    WRONGS,
    AuditResult,
    Sample,
)
from sluicegate.pipeline.report.charts import Bar, Line, columns, lines_over_time
from sluicegate.pipeline.report.page import Fact, Part, Plot, Report, Table, count

_WORDS: Final = {
    LOST: "lost",
    DUPLICATED: "duplicated",
    FOREIGN: "foreign: came out and never in",
    OUT_OF_ORDER: "out of order for their key",
    UNIDENTIFIED: "without an identity",
}


def page(found: AuditResult, *, ingress: Archived, egress: Archived, identity: str) -> Report:
    """Return the page of an audit."""
    wrongs = [f"{count(found.wrong_counts[each])} {_WORDS[each]}" for each in WRONGS if found.wrong_counts[each]]
    clean = f"clean: all {count(found.sent_count)} messages came out, once, and in order for each key"
    return Report(
        title="Audit",
        verdict="; ".join(wrongs) or clean,
        is_good=found.is_clean,
        about=(
            ("came in", f"{ingress.path} where {ingress.where}"),
            ("came out", f"{egress.path} where {egress.where}"),
            ("identity", identity),
        ),
        facts=(
            Fact("came in", count(found.sent_count)),
            Fact("came out", count(found.arrived_count)),
            Fact("keys", count(found.key_count)),
            *(Fact(_WORDS[each], count(number), number > 0) for each, number in found.wrong_counts.items()),
            *(Fact(f"ms, {_fraction(each)}", count(value)) for each, value in found.latency_ms.items()),
        ),
        parts=_parts(found),
    )


def _parts(found: AuditResult) -> list[Part]:
    times = [each.begins for each in found.moments]
    lines = [
        Line("came in", times, [each.sent_count for each in found.moments]),
        Line("of these came out", times, [each.arrived_count for each in found.moments]),
    ]
    says = "Messages, by the time at which the gateway had them."
    parts: list[Part] = [Plot("When they came in", says, lines_over_time(lines, says="messages"))]
    if not found.is_clean:  # a plot of its own: what is wrong is seldom much, beside all that came in
        wrong = Line("wrong", times, [each.wrong_count for each in found.moments], is_bad=True)
        says = "Messages with something wrong, by the same time; of foreign ones by when they came out."
        parts.append(Plot("What went wrong", says, lines_over_time([wrong], says="messages")))
    if found.latency_counts:
        drawn = [Bar(_milliseconds(each), number) for each, number in found.latency_counts.items()]
        says = "From when the gateway had a message until it had what became of it."
        parts.append(Plot("How long they took", says, columns(drawn, across="up to", says="messages")))
    if found.samples:
        parts.append(_table(found.samples))
    return parts


def _table(samples: tuple[Sample, ...]) -> Table:
    return Table(
        title="Examples",
        says="The first ones of each kind. Places are queue, partition and sequence.",
        headings=("what", "identity", "key", "came in", "place", "came out", "place", "at"),
        rows=[
            (
                _WORDS[each.wrong],
                each.identity,
                each.key or "",
                count(each.sent_count),
                each.sent_at,
                count(each.arrived_count),
                each.arrived_at,
                each.received.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3],
            )
            for each in samples
        ],
        numeric=frozenset((3, 5)),
    )


def _fraction(fraction: float) -> str:
    return "the slowest" if fraction == 1 else f"{fraction * 100:g} % within"


def _milliseconds(bound: float) -> str:
    if bound < 1_000:
        return f"{bound:.0f} ms"
    return f"{bound / 1_000:.3g} s"
