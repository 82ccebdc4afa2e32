"""`archive`: archives the messages of a queue as Parquet files or a Delta table.

The batch is the unit: `directories` writes a batch so that it counts once, `delta` enters it in a table. With a decode
stage, undecodable rows go to their own directories, in the same way.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_sluicegate.reading.checkpoint import query_id
from sluicegate.pipeline.archive.reader import check_continues
from sluicegate.pipeline.configuration import DELTA, ArchiveJob
from sluicegate.pipeline.decode.stage import DECODE_ERROR, VALUE, decoded, decoder_for
from sluicegate.pipeline.directories import batch_name, with_day, write_batch
from sluicegate.pipeline.run.attempt import Trigger
from sluicegate.pipeline.run.progress import UNDECODABLE


def archive(spark: SparkSession, config: ArchiveJob, trigger: Trigger) -> StreamingQuery:
    """Start the query: `PATH/queue=Q/dt=DAY/batch=LINEAGE_N/*.parquet`, with the day in UTC of `received`.

    Raises SchemaError; JobFailed for an existing archive of the other format; for a Delta table TableFailed, and
    TableMismatch when the existing table differs.
    """
    check_continues(config.archive)
    rows = with_day(spark.readStream.format("sluicegate").options(**config.source_options).load())
    decoder = decoder_for(config.decode)
    if decoder is not None:
        rows = decoded(rows, decoder).observe(UNDECODABLE, fn.count(DECODE_ERROR).alias(UNDECODABLE))
    if config.archive.format == DELTA:
        from sluicegate.pipeline.archive.delta import ensure_table

        ensure_table(config.archive.path, rows.drop(DECODE_ERROR).schema)

    def write(batch: DataFrame, number: int) -> None:
        query = query_id(config.checkpoint)
        if config.decode.undecodable is None:
            _keep(batch, config, query, number)
            return
        batch.persist()  # it is used twice, and read from the gateway once
        try:
            undecodable = batch.where(fn.col(DECODE_ERROR).isNotNull()).drop(VALUE)
            write_batch(undecodable, config.decode.undecodable, batch_name(query, number))
            _keep(batch.where(fn.col(DECODE_ERROR).isNull()).drop(DECODE_ERROR), config, query, number)
        finally:
            batch.unpersist()

    writer = rows.writeStream.foreachBatch(write).option("checkpointLocation", config.checkpoint)
    return trigger.set_on(writer).start()


def _keep(rows: DataFrame, config: ArchiveJob, query: str, number: int) -> None:
    path, name = config.archive.path, batch_name(query, number)
    if config.archive.format != DELTA:
        write_batch(rows, path, name)
        return
    from sluicegate.pipeline.archive.delta import enter_batch, has_batch

    if not has_batch(path, query, number):
        write_batch(rows, path, name)
        enter_batch(path, name, rows.schema, query, number)
