"""The job `skew`, over archives with keys that are hot."""

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sluicegate.messaging.message.keys import key_hash
from sluicegate.pipeline.archive.reader import Archived
from sluicegate.pipeline.failures import JobFailed
from sluicegate.pipeline.jobs.skew.job import SkewJob, SkewTable, skew
from support.spark.archives import Archive, numbered, write_archives

HOT = "a-hot-key"


def config(path: str, folder: Path, where: str = "queue = 'orders'", **more: float) -> SkewJob:
    table = SkewTable(
        report=str(folder / "skew.html"),
        archive=Archived(path=path, where=where),
        **more,  # type: ignore[arg-type]  # numbers all
    )
    return SkewJob(skew=table)


def test_the_hot_key_is_found_and_what_more_partitions_would_do(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: shares are those of the gateway's own hash. Method: the same, counted plainly."""
    messages = [*numbered(100, keys=50), *[(f"h{each}", HOT) for each in range(60)], *[("x", None)] * 40]
    path = write_archives(tmp_path, Archive("orders", messages, partition_count=2))
    found = skew(spark, config(path, tmp_path, consumers=4, alert_above=1.01))
    by_key = Counter(key for _, key in messages)
    assert (found.message_count, found.keyless_count, found.key_count) == (200, 40, 51)
    assert [(each.key, each.message_count) for each in found.keys[:2]] == [(HOT, 60), ("k", 2)]
    assert sum(each.message_count for each in found.partitions) == 200
    for load in found.tried:
        plain = Counter[int]()
        for key, count in by_key.items():
            if key is not None:
                plain[key_hash(key) % load.partition_count] += count
        assert load.busiest == pytest.approx(max(plain.values()) + 40 / load.partition_count)
    assert not found.is_clean
    assert json.dumps(found.figures())
    page = (tmp_path / "skew.html").read_text()
    assert f"the key {HOT} alone is 30% of all" in page
    assert page.count("<svg") == 3


def test_an_archive_of_several_queues_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = write_archives(tmp_path, Archive("orders", numbered(10)), Archive("other", numbered(10)))
    with pytest.raises(JobFailed, match=r"^skew.archive: messages of 2 queues in "):
        skew(spark, config(path, tmp_path, where="true"))
    with pytest.raises(JobFailed, match=r"^skew.archive: messages of 0 queues in "):
        skew(spark, config(path, tmp_path, where="queue = 'none'"))
