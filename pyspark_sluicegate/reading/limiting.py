"""Where the next batch of a stream ends, when it is limited by rows or bytes. `planning` makes tasks of it.

Partitions share the limit in proportion to the sequences that each has waiting, and the gateway says how far a share
reaches: it knows which sequences a crash skipped, and passes over them, for they are no rows.
"""

from collections.abc import Mapping

from pyspark_sluicegate.reading.planning import ALL, share_rows
from sluicegate import BlockingBulk


def next_ends(
    bulk: BlockingBulk, queue: str, firsts: Mapping[int, int], ends: Mapping[int, int], *, rows_max: int, bytes_max: int
) -> dict[int, int]:
    """Return the end of the batch in each partition that has something from `firsts` to `ends`.

    With a limit (ALL: none) each gives one message at least, while there are no more partitions than rows. Where there
    are skipped sequences only, all of them are passed over.
    """
    waiting = {each: end - firsts[each] for each, end in ends.items() if end > firsts[each]}
    if rows_max != ALL:
        rows = share_rows(waiting, rows_max)
        cuts = bulk.cut_ranges(queue, {each: firsts[each] for each in rows}, rows=rows)
    elif bytes_max != ALL:
        total = sum(waiting.values())
        usage_bytes = {each: max(1, bytes_max * count // total) for each, count in waiting.items()}
        cuts = bulk.cut_ranges(queue, {each: firsts[each] for each in waiting}, usage_bytes=usage_bytes)
    else:
        return {each: ends[each] for each in waiting}
    return {each: ends[each] if cut == firsts[each] else min(cut, ends[each]) for each, cut in cuts.items()}
