"""The job `audit`: over archives with planted mistakes, against a plain model, and as the program for operators."""

import random
from collections import Counter, defaultdict
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sluicegate.pipeline.archive.reader import Archived
from sluicegate.pipeline.configuration import DELTA
from sluicegate.pipeline.failures import JobFailed
from sluicegate.pipeline.jobs.audit.findings import WRONGS, AuditResult
from sluicegate.pipeline.jobs.audit.job import AuditJob, AuditTable, audit, findings, paired
from support.spark.archives import BEGAN, Archive, numbered, write_archives

IN, OUT = "007", "done"  # a name that looks like a number stays a name


def config(path: str, folder: Path, **more: str) -> AuditJob:
    return AuditJob(
        audit=AuditTable(
            report=str(folder / "reports" / "audit.html"),
            ingress=Archived(path=path, where=f"queue = '{IN}'"),
            egress=Archived(path=path, where=f"queue = '{OUT}'"),
            identity="correlation_id",
            **more,  # type: ignore[arg-type]  # texts all
        )
    )


def test_messages_that_arrived_once_and_in_order_are_clean(spark: SparkSession, tmp_path: Path) -> None:
    """Here in a folder whose name would be a pattern."""
    sent = numbered(400)
    path = write_archives(tmp_path / "plant [7] {a,b}*", Archive(IN, sent), Archive(OUT, sent, partition_count=3))
    found = audit(spark, config(path, tmp_path))
    assert found.is_clean
    assert (found.sent_count, found.arrived_count, found.key_count) == (400, 400, 5)
    assert found.samples == ()
    assert sum(each.sent_count for each in found.moments) == 400
    page = (tmp_path / "reports" / "audit.html").read_text()
    assert "clean: all 400 messages came out" in page
    assert page.count("<svg") == 2


def test_each_planted_mistake_is_found_and_shown(spark: SparkSession, tmp_path: Path) -> None:
    sent = numbered(400)
    done = [each for each in sent if each[0] not in ("m50", "m51")]
    done.insert(200, ("m10", "k"))  # again
    done.append(("stranger", "k"))
    late = done.pop(done.index(("m100", "k")))
    done.insert(done.index(("m120", "k")) + 1, late)  # m105, m110, m115, m120 came out before
    done.append((None, "k"))
    path = write_archives(tmp_path, Archive(IN, sent), Archive(OUT, done))
    found = audit(spark, config(path, tmp_path, key="partition_key"))
    assert dict(found.wrong_counts) == {
        "lost": 2, "duplicated": 1, "foreign": 1, "out_of_order": 1, "unidentified": 1,
    }  # fmt: skip
    assert [(each.wrong, each.identity) for each in found.samples] == [
        ("lost", "m50"), ("lost", "m51"), ("duplicated", "m10"), ("foreign", "stranger"),
        ("out_of_order", "m100"), ("unidentified", ""),
    ]  # fmt: skip
    lost = found.samples[0]
    assert (lost.sent_at, lost.arrived_at, lost.received) == (f"{IN}/1/31", "", BEGAN + timedelta(milliseconds=150))
    assert sum(each.wrong_count for each in found.moments) == 6
    page = (tmp_path / "reports" / "audit.html").read_text()
    assert "2 lost; 1 duplicated; 1 foreign" in page
    assert "stranger" in page


def test_too_recent_messages_are_not_judged(spark: SparkSession, tmp_path: Path) -> None:
    sent = numbered(300)
    path = write_archives(tmp_path, Archive(IN, sent), Archive(OUT, sent[:200]))
    judge = f"received < timestamp '{(BEGAN + timedelta(milliseconds=600)).isoformat()}'"
    found = audit(spark, config(path, tmp_path, judge=judge))
    assert (found.is_clean, found.sent_count) == (True, 200)
    with pytest.raises(JobFailed, match=r"^audit.ingress: no message .*, of those that audit.judge takes: false$"):
        audit(spark, config(path, tmp_path, judge="false"))


def test_an_audit_of_nothing_is_a_mistake_and_no_success(spark: SparkSession, tmp_path: Path) -> None:
    path = write_archives(tmp_path, Archive(OUT, numbered(10)))
    with pytest.raises(JobFailed, match=r"^audit.ingress: no message in .* where queue = '007'"):
        audit(spark, config(path, tmp_path))
    assert not (tmp_path / "reports").exists()


def test_an_archive_that_is_not_what_its_format_says_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Files that were replaced lie in the folder of a Delta table, too."""
    path = write_archives(tmp_path, Archive(IN, numbered(10)))
    with pytest.raises(JobFailed, match=r"archive is no Delta table, and format is delta$"):
        Archived(path=path, format=DELTA).rows(spark)
    (tmp_path / "archive" / "_delta_log").mkdir()
    with pytest.raises(JobFailed, match=r"archive is a Delta table, and format is parquet$"):
        audit(spark, config(path, tmp_path))


def plain(sent: Archive, arrived: Archive) -> dict[str, int]:
    """The same, as one writes it down without any thought of speed."""
    came_in, came_out = (Counter(each for each, _ in archive.messages if each) for archive in (sent, arrived))
    first_sent = {row.correlation_id: row for row in reversed(sent.rows())}
    seen: set[bytes | None] = set()
    reached: defaultdict[tuple[object, ...], int] = defaultdict(int)
    out_of_order = 0
    for row in arrived.rows():
        first = first_sent.get(row.correlation_id)
        if row.correlation_id is None or row.correlation_id in seen or first is None:
            continue
        seen.add(row.correlation_id)
        if first.partition_key is None:
            continue
        way = (first.partition_key, first.partition, row.partition)
        out_of_order += first.sequence < reached[way]
        reached[way] = max(reached[way], first.sequence)
    return {
        "lost": sum((came_in - came_out).values()),
        "duplicated": sum(max(0, came_out[each] - number) for each, number in came_in.items()),
        "foreign": sum(number for each, number in came_out.items() if each not in came_in),
        "out_of_order": out_of_order,
        "unidentified": sum(each is None for archive in (sent, arrived) for each, _ in archive.messages),
    }


def spoilt(seed: int) -> tuple[Archive, Archive]:
    """A run of a bad gateway: messages are dropped, repeated, swapped and made up."""
    draw = random.Random(seed)
    sent: list[tuple[str | None, str | None]] = [
        (f"m{draw.randrange(400)}" if draw.random() < 0.05 else f"m{number}", draw.choice(("a", "bb", "ccc", None)))
        for number in range(400)
    ]
    sent = [(None, key) if draw.random() < 0.01 else (name, key) for name, key in sent]
    done = [each for each in sent for _ in range(draw.choices((0, 1, 2, 3), (2, 90, 5, 3))[0])]
    for _ in range(draw.randrange(20)):
        done.insert(draw.randrange(len(done)), done.pop(draw.randrange(len(done))))
    done += [(f"x{number % 3}", "a") for number in range(draw.randrange(6))]
    return Archive(IN, sent, partition_count=draw.randrange(1, 4)), Archive(OUT, done, partition_count=3)


@pytest.mark.parametrize("seed", range(3))
def test_an_audit_agrees_with_the_plain_model(spark: SparkSession, seed: int) -> None:
    """Goal: counts are exact whatever goes wrong together. Method: the same archives to both, compared."""
    sent, arrived = spoilt(seed)
    ingress, egress = (spark.createDataFrame(each.table()) for each in (sent, arrived))
    pairs = paired(ingress, egress, identity="correlation_id", key="partition_key").persist()
    found: AuditResult = findings(pairs, samples=1_000)
    pairs.unpersist()
    assert dict(found.wrong_counts) == plain(sent, arrived)
    assert {each.wrong for each in found.samples} == {name for name in WRONGS if found.wrong_counts[name]}
    assert sum(each.sent_count for each in found.moments) == len(sent.messages)
