"""What a store knows of itself: its format, its incarnation, and whether it was closed in order.

The identity is a sealed record (`records.seal`) of kind SGM under the key "store"; its version is the format of the
whole store, its content the incarnation as u64. The mark of an orderly end is the presence of the key "clean". The key
"turn" changes when a commit is wanted for its own sake: to free pages, or to see whether there can be one.
"""

import struct
from typing import TYPE_CHECKING, Final

import lmdb

from sluicegate.storage.environment.databases import Databases
from sluicegate.storage.records.seal import SEAL_BYTES, seal, unseal_whole

if TYPE_CHECKING:
    Transaction = lmdb.Transaction[bytes]

STORE_KIND: Final = b"SGM"
STORE_FORMAT: Final = 1

_IDENTITY_KEY: Final = b"store"
_CLEAN_KEY: Final = b"clean"
_TURN_KEY: Final = b"turn"
_INCARNATION: Final = struct.Struct("<Q")


def read_incarnation(txn: "Transaction", databases: Databases, where: str) -> int | None:
    """Return the incarnation, None in a new store. Raises UnsupportedFormat and DamagedRecord.

    A damaged identity is refused and not replaced: readers elsewhere hold sequences of the old incarnation.
    """
    data = txn.get(_IDENTITY_KEY, db=databases.meta)
    if data is None:
        return None
    unseal_whole(data, STORE_KIND, STORE_FORMAT, where)
    incarnation: int = _INCARNATION.unpack_from(data, SEAL_BYTES)[0]
    return incarnation


def write_incarnation(txn: "Transaction", databases: Databases, incarnation: int) -> None:
    """Give a new store its identity."""
    data = seal(STORE_KIND, STORE_FORMAT, _INCARNATION.pack(incarnation))
    txn.put(_IDENTITY_KEY, data, db=databases.meta)


def read_clean(txn: "Transaction", databases: Databases) -> bool:
    """Return whether the last process ended in order."""
    return txn.get(_CLEAN_KEY, db=databases.meta) is not None


def write_clean(txn: "Transaction", databases: Databases, *, clean: bool) -> None:
    """Put the mark of an orderly end, or take it away."""
    if clean:
        txn.put(_CLEAN_KEY, b"1", db=databases.meta)
    else:
        txn.delete(_CLEAN_KEY, db=databases.meta)


def write_turn(txn: "Transaction", databases: Databases) -> None:
    """Change something that nobody reads, so that LMDB takes the commit for one."""
    txn.put(_TURN_KEY, txn.id().to_bytes(8, "little"), db=databases.meta)
