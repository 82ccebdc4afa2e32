"""What the job `archive` has written, read again: a table of a job's file that names an archive, or a part of one."""

from pathlib import Path
from typing import Annotated, Final, final

from pydantic import Field
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from pipeline.configuration import Section
from pipeline.failures import JobFailed

DELTA_LOG: Final = "_delta_log"  # the folder that makes a folder of files a table


@final
class Archived(Section):
    """An archive and a condition in Spark's SQL over its columns."""

    path: Annotated[str, Field(min_length=1)]
    where: Annotated[str, Field(min_length=1)] = "true"

    def rows(self, spark: SparkSession) -> DataFrame:
        """Return the rows, with the columns of the source and `dt`.

        Raises JobFailed at a Delta table, else what Spark does.
        """
        if (Path(self.path) / DELTA_LOG).is_dir():
            # Only its log says which of its files count; Spark would read those that were replaced as well.
            raise JobFailed(f"{self.path} is a Delta table, and what is looked at are archives of Parquet files")
        found = spark.read.parquet(self.path).schema
        # Spark takes a queue named 007 for the number 7, unless it is told that the directories are texts.
        named = [StructField("queue", StringType()) if each.name == "queue" else each for each in found.fields]
        return spark.read.schema(StructType(named)).parquet(self.path).where(self.where)
