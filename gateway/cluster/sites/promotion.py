"""What a site does before it serves without what the other one had confirmed."""

from sluicegate.storage.catalog.recovered import SEQUENCES_SKIPPED, read_partitions
from sluicegate.storage.interface import CommitJob, Reservation, Store


def skip_sequences(store: Store) -> None:
    """Have no partition assign sequences that clients may have seen of messages which were lost.

    As for a cursor that is lost (`SEQUENCES_SKIPPED`): how many were assigned is not known. Done twice, it skips twice.
    Raises what a commit raises.
    """
    recovery = store.recover()
    partitions, _ = read_partitions(recovery)
    reservations = [
        Reservation(number, stored.floor, max(stored.next_sequence, stored.known_end()) + SEQUENCES_SKIPPED)
        for number, stored in sorted(partitions.items())
    ]
    store.commit(CommitJob(number=recovery.next_record_number, reservations=reservations, uses_reserve=True))
