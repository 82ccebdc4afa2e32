"""The state of a driver that died between a batch's writes and Spark's commit of it, made from a finished query."""

from pathlib import Path

from pyspark_sluicegate.options import SourceOptions
from sluicegate import BlockingClient
from sluicegate.pipeline.configuration import StreamJob


def forget_the_last_commit(config: StreamJob) -> None:
    """Take back that the last batch of an ended query is through: in Spark's log, and for the gateway's cursor."""
    options = SourceOptions.of(config.source_options)
    with BlockingClient(options.connect.url) as client:
        client.bulk.delete_cursor(options.queue, options.cursor)
        client.bulk.bind_cursor(options.queue, options.cursor, mode=options.mode).unbind()
    commits = Path(config.checkpoint) / "commits"
    last = max(int(each.name) for each in commits.iterdir() if each.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
