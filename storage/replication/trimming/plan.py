"""What of a log may go: by its snapshots, and by the holds of its readers.

A snapshot is a backup of a replica that has the log up to a record. It counts when it was read back and its checksum
compared. The log is trimmed to the second newest one that counts, so that one may be lost. A replica that reads has a
hold, which no trim passes. If the log gets too large, the oldest hold is revoked, and its replica begins anew from a
snapshot.

A position is the number of a record, the sequence of its first message. The record itself stays in the log: a replica
that starts reads its last record again.

This is the pure part, with the names of the actions in the model, `tests/models/replicated_log/Trimming.tla`. Two rules
are about the order of looks, and the caller has to obey them. An owner looks at the snapshots before it looks at the
holds. And a replica that has placed a hold looks at the snapshots again (`may_rely_on_hold`).
"""

from collections.abc import Collection
from typing import Final, NamedTuple

KEPT: Final = 2  # verified snapshots that are never deleted: the newest ones
EVERYTHING: Final = 1  # the first message of a log, which is kept when nothing may go

# A snapshot is due when the log has grown by as much as the store has, between these shares of the log's size.
DUE_SHARE_MIN: Final = 16
DUE_SHARE_MAX: Final = 4
HOLDS_PERCENT: Final = 65  # of the log's size beyond which holds are revoked; publishers are refused at 80


class Snapshot(NamedTuple):
    """A snapshot in the object store."""

    name: str
    position: int  # number of the last record that it has
    is_verified: bool  # it was read back, and is what was made


class Hold(NamedTuple):
    """What a replica still needs of the log."""

    replica: str
    position: int  # number of the first record that it needs


class Trim(NamedTuple):
    """What to do now, in this order."""

    revoked: list[Hold]  # these are taken away, and an operator is told
    keep_from: int  # messages below this sequence may go
    deletes: list[Snapshot]  # no trim rests on these


def plan_trim(snapshots: Collection[Snapshot], holds: Collection[Hold], *, revokes: bool) -> Trim:
    """Return what may go of a log. The holds were looked at after the snapshots.

    `revokes`: the log is too large, so a hold is revoked if that lets something go.
    """
    verified = _newest_first(snapshots)
    if len(verified) < KEPT:
        return Trim([], EVERYTHING, [])
    newest = verified[:KEPT]
    base = newest[-1].position
    revoked: list[Hold] = []
    if revokes and holds:
        oldest = min([hold.position for hold in holds])
        if oldest < base:
            revoked = sorted([hold for hold in holds if hold.position == oldest])
    needed = [hold.position for hold in holds if hold not in revoked]
    deletes = [each for each in snapshots if each not in newest and (each.is_verified or each.position < base)]
    return Trim(revoked, max(EVERYTHING, min([base, *needed])), sorted(deletes))


def snapshot_is_due(
    snapshots: Collection[Snapshot], *, first: int, end: int, log_bytes: int, log_bytes_max: int, store_bytes: int
) -> bool:
    """Return whether the log has grown enough since the newest verified snapshot, or is too large.

    The stream has the sequences `[first, end)`, and so many bytes. A snapshot costs as much as the store has. If the
    log is too large, another snapshot lets it be trimmed to the one that is the newest now.
    """
    verified = _newest_first(snapshots)
    lets_more_go = bool(verified) and (len(verified) < KEPT or verified[KEPT - 1].position < verified[0].position)
    if lets_more_go and is_too_large(log_bytes, log_bytes_max):
        return True
    grown_bytes = bytes_behind(position_of_new_hold(snapshots), first=first, end=end, log_bytes=log_bytes)
    return grown_bytes > min(max(store_bytes, log_bytes_max // DUE_SHARE_MIN), log_bytes_max // DUE_SHARE_MAX)


def bytes_behind(position: int, *, first: int, end: int, log_bytes: int) -> int:
    """Return how much of a log is behind a position, about: the stream has `[first, end)`, and so many bytes."""
    return log_bytes * max(0, end - max(first, position)) // max(1, end - first)


def is_too_large(log_bytes: int, log_bytes_max: int) -> bool:
    """Return whether a log has passed the size above which holds are revoked."""
    return log_bytes > log_bytes_max * HOLDS_PERCENT // 100


def position_of_new_hold(snapshots: Collection[Snapshot]) -> int:
    """Return where a replica without a hold places one: at the newest verified snapshot. 0 when there is none."""
    verified = _newest_first(snapshots)
    return verified[0].position if verified else 0


def may_rely_on_hold(position: int, snapshots: Collection[Snapshot]) -> bool:
    """Return whether no trim passes a new hold. The snapshots were looked at after it was placed.

    If a newer one was verified meanwhile, an owner may have sent a purge before it saw the hold. Otherwise a purge that
    is under way goes no farther than the second newest one of these.
    """
    return position >= position_of_new_hold(snapshots)


def to_install(snapshots: Collection[Snapshot], first: int) -> list[Snapshot]:
    """Return the snapshots behind which a replica can go on in a stream that begins with a sequence, newest first."""
    return [each for each in _newest_first(snapshots) if each.position >= first]


def has_to_begin_anew(first: int, last_record: int) -> bool:
    """Return whether a replica needs a snapshot: the stream begins behind the last record that it has, 0 for none."""
    return first > max(1, last_record)


def _newest_first(snapshots: Collection[Snapshot]) -> list[Snapshot]:
    """Return those that count."""
    verified = [each for each in snapshots if each.is_verified]
    return sorted(verified, key=lambda each: (each.position, each.name), reverse=True)
