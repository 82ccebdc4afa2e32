"""The report on the skew of a queue."""

from typing import Final

from sluicegate.pipeline.jobs.skew.shares import KeyShare, SkewResult
from sluicegate.pipeline.report.charts import Bar, Line, bars, columns, lines_over
from sluicegate.pipeline.report.page import Fact, Plot, Report, Table, count

BARS_MAX: Final = 20  # of a plot; the table has them all
NAME_CHARACTERS_MAX: Final = 32  # beside a bar


def page(found: SkewResult, where: str) -> Report:
    """Return the page."""
    return Report(
        title="Skew",
        verdict=_verdict(found),
        is_good=found.is_clean,
        about=(("messages", where), ("consumers to be kept busy", str(found.consumer_count))),
        facts=(
            Fact("messages", count(found.message_count)),
            Fact("keys", count(found.key_count)),
            Fact("messages without a key", count(found.keyless_count)),
            Fact("partitions now", str(found.now.partition_count)),
            Fact("busiest partition, times the mean", f"{found.now.max_over_mean:.2f}", not found.is_clean),
            Fact("consumers kept busy now", f"{found.now.parallelism:.1f}"),
            Fact("partitions suggested", str(found.suggested.partition_count)),
            Fact("consumers kept busy then", f"{found.suggested.parallelism:.1f}"),
        ),
        parts=(*_plots(found), _keys(found)),
    )


def _verdict(found: SkewResult) -> str:
    said = f"the busiest partition has {found.now.max_over_mean:.2f} times the mean"
    if not found.keys:
        return f"{said}; no message has a key"
    busiest = found.keys[0]
    share = busiest.message_count / found.message_count
    if share * found.consumer_count > 1:
        return f"{said}; the key {busiest.key} alone is {share:.0%} of all, which no number of partitions spreads"
    return f"{said}; the busiest key is {share:.1%} of all"


def _plots(found: SkewResult) -> list[Plot]:
    busiest = max(found.partitions, key=lambda each: each.message_count)
    partitions = [Bar(str(each.number), each.message_count, each == busiest) for each in found.partitions]
    keys = [Bar(_shown(each), each.message_count, busiest.number in each.partitions) for each in found.keys[:BARS_MAX]]
    counts = [each.partition_count for each in found.tried]
    plots = [
        Plot(
            "Partitions as they are",
            f"Messages in each. The busiest is {busiest.number}.",
            columns(partitions, across="partition", says="messages"),
        )
    ]
    if keys:
        plots.append(
            Plot(
                "The busiest keys",
                f"Messages of each; those in red are in partition {busiest.number}.",
                bars(keys, says="messages"),
            )
        )
    plots.append(
        Plot(
            "What another number of partitions would do",
            "How many consumers could be kept busy, by the gateway's own hash. A hot key is a ceiling.",
            lines_over(
                [
                    Line("consumers kept busy", counts, [each.parallelism for each in found.tried]),
                    Line("busiest partition, times the mean", counts, [each.max_over_mean for each in found.tried]),
                ],
                across="partitions",
                says="",
            ),
        )
    )
    return plots


def _keys(found: SkewResult) -> Table:
    return Table(
        title="Keys",
        says="The busiest first.",
        headings=("key", "messages", "of all", "bytes of payload", "partition"),
        rows=[
            (
                each.key,
                count(each.message_count),
                f"{each.message_count / found.message_count:.2%}",
                count(each.payload_bytes),
                ", ".join(str(number) for number in each.partitions),
            )
            for each in found.keys
        ],
        numeric=frozenset((1, 2, 3)),
    )


def _shown(key: KeyShare) -> str:
    """Return a key, shortened to fit beside a bar."""
    name = key.key
    return name if len(name) <= NAME_CHARACTERS_MAX else f"{name[: NAME_CHARACTERS_MAX - 1]}…"
