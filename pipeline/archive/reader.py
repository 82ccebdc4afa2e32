"""Reads archives of the job `archive`, as a table of a job's file names them: the whole archive, or a part of it."""

from pathlib import Path
from typing import Annotated, Final, final

from pydantic import Field
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructType

from pyspark_sluicegate.columns import chosen_columns, schema_of
from sluicegate.pipeline.configuration import DELTA, ArchiveTable
from sluicegate.pipeline.directories import as_it_is, has_batches, is_folder
from sluicegate.pipeline.failures import JobFailed

DELTA_LOG: Final = "_delta_log"  # the folder that makes a folder of files a table


@final
class Archived(ArchiveTable):
    """An archive and a condition in Spark's SQL over its columns."""

    where: Annotated[str, Field(min_length=1)] = "true"

    def rows(self, spark: SparkSession) -> DataFrame:
        """Return the rows, with the columns of the source and `dt`; omitted columns are null.

        Raises JobFailed and Spark's errors.
        """
        check_format(self)
        if self.format == DELTA:
            from sluicegate.pipeline.archive.delta import rows_of

            return rows_of(spark, self.path).where(self.where)
        path = as_it_is(self.path)
        # Spark goes by the columns of one file, and takes a queue named 007 for the number 7, unless it is told.
        known = DataType.fromDDL(schema_of(chosen_columns(())))
        assert isinstance(known, StructType), "columns with names are one"
        others = [each for each in spark.read.parquet(path).schema if each.name not in known.names]
        return spark.read.schema(StructType([*known, *others])).parquet(path).where(self.where)


def check_format(archive: ArchiveTable) -> None:
    """Raise JobFailed unless an existing archive has the configured `format`.

    Only the log of a Delta table lists its valid files: a reader of the files alone would count replaced ones, too.
    """
    is_table = _is_table(archive)
    if is_table != (archive.format == DELTA):
        raise JobFailed(f"{archive.path} is {'a' if is_table else 'no'} Delta table, and format is {archive.format}")


def check_continues(archive: ArchiveTable) -> None:
    """Raise JobFailed for an archive of the other format, whose readers would not find new batches.

    A folder without batches is not an archive yet.
    """
    if has_batches(archive.path) or _is_table(archive):
        check_format(archive)


def _is_table(archive: ArchiveTable) -> bool:
    return is_folder(Path(archive.path) / DELTA_LOG)
