"""The identity of a store: its format, its incarnation, its place in the log, and the mark of a clean shutdown.

The identity is a sealed record (`records.seal`) of kind SGM under the key "store"; its version is the format of the
whole store, its content the incarnation as u64. Format 1 had no log: its journal records were in the sub-database
`journal`. The place in the log is a sealed record of kind SGN under the key "log", with two numbers of log records as
u64: the last one that the state includes, and the first one with messages that no page has. The key "clean" marks a
clean shutdown, unless the log has later records. The key "turn" changes when the caller needs a commit without other
content: to free pages. The key "links" is there once a page was stored as links into the log.
"""

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

import lmdb

from sluicegate.storage.environment.databases import Databases
from sluicegate.storage.records.seal import SEAL_BYTES, seal, sealed_version, unseal_whole

if TYPE_CHECKING:
    Transaction = lmdb.Transaction[bytes]

STORE_KIND: Final = b"SGM"
STORE_FORMAT: Final = 2
STORE_FORMAT_OLDEST: Final = 1
POSITIONS_KIND: Final = b"SGN"
POSITIONS_FORMAT: Final = 1

IDENTITY_KEY: Final = b"store"
_CLEAN_KEY: Final = b"clean"
_TURN_KEY: Final = b"turn"
_LINKS_KEY: Final = b"links"
LOG_KEY: Final = b"log"
_INCARNATION: Final = struct.Struct("<Q")
_POSITIONS: Final = struct.Struct("<QQ")


class Positions(NamedTuple):
    """What the state includes of the log. Both are numbers of log records."""

    applied: int  # the state includes the records up to this one; 0: none
    needed_from: int  # no page has the messages of records from this one on


def read_incarnation(txn: "Transaction", databases: Databases, where: str) -> int | None:
    """Return the incarnation, None in a new store. Raises UnsupportedFormat and DamagedRecord.

    A damaged identity is refused and not replaced: readers elsewhere hold sequences of the old incarnation.
    """
    data = txn.get(IDENTITY_KEY, db=databases.meta)
    if data is None:
        return None
    unseal_whole(data, STORE_KIND, STORE_FORMAT, where, oldest=STORE_FORMAT_OLDEST)
    incarnation: int = _INCARNATION.unpack_from(data, SEAL_BYTES)[0]
    return incarnation


def write_incarnation(txn: "Transaction", databases: Databases, incarnation: int) -> None:
    """Give a new store its identity."""
    data = seal(STORE_KIND, STORE_FORMAT, _INCARNATION.pack(incarnation))
    txn.put(IDENTITY_KEY, data, db=databases.meta)


def has_log(txn: "Transaction", databases: Databases) -> bool:
    """Return whether a store with a sound identity has a log: one of format 1 has none."""
    data = txn.get(IDENTITY_KEY, db=databases.meta)
    return data is not None and sealed_version(data, 0) > 1


def read_positions(txn: "Transaction", databases: Databases, where: str) -> Positions:
    """Return the place in the log. Raises UnsupportedFormat and DamagedRecord."""
    data = txn.get(LOG_KEY, db=databases.meta)
    if data is None:
        return Positions(0, 1)
    unseal_whole(data, POSITIONS_KIND, POSITIONS_FORMAT, where)
    return Positions(*_POSITIONS.unpack_from(data, SEAL_BYTES))


def write_positions(txn: "Transaction", databases: Databases, positions: Positions) -> None:
    """Set the place in the log."""
    txn.put(LOG_KEY, seal(POSITIONS_KIND, POSITIONS_FORMAT, _POSITIONS.pack(*positions)), db=databases.meta)


def read_clean(txn: "Transaction", databases: Databases) -> bool:
    """Return whether the last process shut down cleanly."""
    return txn.get(_CLEAN_KEY, db=databases.meta) is not None


def write_clean(txn: "Transaction", databases: Databases, *, clean: bool) -> None:
    """Set or remove the mark of a clean shutdown."""
    if clean:
        txn.put(_CLEAN_KEY, b"1", db=databases.meta)
    else:
        txn.delete(_CLEAN_KEY, db=databases.meta)


def write_turn(txn: "Transaction", databases: Databases) -> None:
    """Change an otherwise unused key, so that LMDB performs the commit."""
    txn.put(_TURN_KEY, txn.id().to_bytes(8, "little"), db=databases.meta)


def has_links(txn: "Transaction", databases: Databases) -> bool:
    """Return whether pages may be linked ones."""
    return txn.get(_LINKS_KEY, db=databases.meta) is not None


def write_links(txn: "Transaction", databases: Databases) -> None:
    """Note that pages may be linked ones."""
    txn.put(_LINKS_KEY, b"1", db=databases.meta)
