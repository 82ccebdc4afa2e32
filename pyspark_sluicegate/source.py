"""The data source behind `spark.read.format("sluicegate")` and its three siblings.

Spark creates it in three kinds of processes, and pickles the results, so nothing here connects. Each reader and writer
has its own module, imported on demand: Spark imports this module whenever it searches for any source.
"""

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from pyspark_sluicegate.options import OptionError, SinkOptions, SourceOptions

if TYPE_CHECKING:
    from pyspark_sluicegate.reading.batch import QueueReader
    from pyspark_sluicegate.reading.stream import QueueStreamReader
    from pyspark_sluicegate.writing.sink import QueueStreamWriter, QueueWriter


class SluicegateSource(DataSource):
    """Queues of a gateway, as batches and streams."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "sluicegate"

    def schema(self) -> str:
        """Return the selected columns. Raises OptionError."""
        from pyspark_sluicegate.columns import chosen_columns, schema_of

        return schema_of(chosen_columns(SourceOptions.of(self.options).columns))

    def reader(self, schema: StructType) -> "QueueReader":
        """Return the batch reader. Raises OptionError."""
        from pyspark_sluicegate.reading.batch import QueueReader, QueueReaderWithFilters
        from pyspark_sluicegate.reading.tasks import RangeReader

        options = _source_options(self.options, schema)
        make = QueueReaderWithFilters if options.pushdown else QueueReader
        return make(options, RangeReader(options, _arrow_schema(schema)))

    def streamReader(self, schema: StructType) -> "QueueStreamReader":  # noqa: N802, Spark's name
        """Return the stream reader. Raises OptionError."""
        from pyspark_sluicegate.reading.stream import QueueStreamReader
        from pyspark_sluicegate.reading.tasks import RangeReader

        options = _source_options(self.options, schema)
        return QueueStreamReader(options, RangeReader(options, _arrow_schema(schema)))

    def writer(self, schema: StructType, overwrite: bool) -> "QueueWriter":
        """Return the batch writer. Raises OptionError."""
        from pyspark_sluicegate.writing.sink import QueueWriter

        if overwrite:
            raise OptionError("a queue cannot be overwritten: write with mode append")
        options = _sink_options(self.options, schema)
        return QueueWriter(options, options.transaction or f"spark/{uuid.uuid4()}")

    def streamWriter(self, schema: StructType, overwrite: bool) -> "QueueStreamWriter":  # noqa: N802, Spark's name
        """Return the stream writer. Raises OptionError."""
        from pyspark_sluicegate.writing.sink import QueueStreamWriter

        if overwrite:
            raise OptionError("a queue cannot be overwritten: write with output mode append")
        return QueueStreamWriter(_sink_options(self.options, schema))


def _source_options(given: Mapping[str, str], schema: StructType) -> SourceOptions:
    """Check the options, and that a user's schema equals theirs. Raises OptionError."""
    from pyspark_sluicegate.columns import chosen_columns

    options = SourceOptions.of(given)
    names = [column.name for column in chosen_columns(options.columns)]
    if schema.names != names:
        wanted = ",".join(schema.names)
        raise OptionError(f"the schema names {wanted}, and the columns are {','.join(names)}: choose them by `columns`")
    return options


def _sink_options(given: Mapping[str, str], schema: StructType) -> SinkOptions:
    """Check options and columns before any task begins: otherwise every attempt of every task would fail."""
    from pyspark_sluicegate.writing.rows_out import check_columns

    options = SinkOptions.of(given, schema.names)
    check_columns(_arrow_schema(schema), options)
    return options


def _arrow_schema(schema: StructType) -> Any:
    """Return the Arrow schema that Spark compares the first record batch with."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")
