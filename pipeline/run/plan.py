"""What a job would do: its file with all defaults, what its rows look like, and the tasks of its next batch.

Nothing is run: no session, and nothing bound or read at the gateway.
"""

from collections.abc import Mapping

from pyspark_sluicegate.columns import chosen_columns, schema_of
from pyspark_sluicegate.connection import bulk_for
from pyspark_sluicegate.options import SourceOptions
from pyspark_sluicegate.reading.limiting import next_ends
from pyspark_sluicegate.reading.planning import ALL, RangeToRead, cut, group
from sluicegate.pipeline.configuration import JobFile, QueueJob, StreamJob
from sluicegate.pipeline.run.places import place_of


def plan_of(config: JobFile) -> Mapping[str, object]:
    """Return the plan as JSON has it. Raises CheckpointError, OffsetError, FlowClientError."""
    plan: dict[str, object] = {"configuration": config.model_dump(mode="json")}
    if not isinstance(config, QueueJob):
        return plan
    options = SourceOptions.of(config.source_options)
    plan["schema"] = schema_of(chosen_columns(options.columns))
    tasks = group(cut(_next_ranges(config, options), options.split_rows), options.tasks)
    plan["tasks"] = [
        [{"partition": each.partition, "first": each.first, "end": each.end} for each in task] for task in tasks
    ]
    return plan


def _next_ranges(config: QueueJob, options: SourceOptions) -> list[RangeToRead]:
    """Return what a stream would read with its next batch, or all that a batch job reads, whatever limits are given."""
    bulk, rows_max, bytes_max = bulk_for(options.connect), ALL, ALL
    if isinstance(config, StreamJob):
        places = place_of(config).partitions
        firsts = {number: max(each.read, each.acknowledged) for number, each in places.items()}
        ends = {number: each.end for number, each in places.items()}
        rows_max, bytes_max = options.rows_max, options.bytes_max
    else:
        positions = bulk.queue_status(options.queue).positions
        firsts = {each.partition: each.low for each in positions}
        ends = {each.partition: each.next_sequence for each in positions}
    chosen = next_ends(bulk, options.queue, firsts, ends, rows_max=rows_max, bytes_max=bytes_max)
    return [RangeToRead(number, firsts[number], end) for number, end in sorted(chosen.items())]
