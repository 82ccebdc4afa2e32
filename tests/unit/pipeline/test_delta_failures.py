"""What is wrong with a Delta table is told in one line: which table, what of it, and what is wanted. No Spark runs."""

from pathlib import Path

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from sluicegate.pipeline.archive.delta import TableFailed, ensure_table, has_batch
from sluicegate.pipeline.directories import PARTITIONED_BY

COLUMNS = StructType([StructField(name, LongType()) for name in (*PARTITIONED_BY, "sequence")])


def test_a_folder_that_is_no_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(TableFailed, match=rf"^the Delta table {tmp_path} could not be read: .* Wanted is a folder"):
        has_batch(str(tmp_path), "query", 0)


def test_a_damaged_log_is_reported_without_a_place_in_the_library(tmp_path: Path) -> None:
    path = str(tmp_path / "archive")
    ensure_table(path, COLUMNS)
    (log,) = (tmp_path / "archive" / "_delta_log").glob("*.json")
    log.write_text(log.read_text()[:100])
    with pytest.raises(TableFailed) as failed:
        has_batch(path, "query", 0)
    assert str(failed.value).startswith(f"the Delta table {path} could not be read: ")
    assert "\n" not in str(failed.value)


def test_a_table_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TableFailed, match=rf"^the Delta table {tmp_path}/file could not be made: .*$"):
        ensure_table(str(tmp_path / "file"), COLUMNS)
