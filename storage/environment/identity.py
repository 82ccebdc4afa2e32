"""The identity of a store: its format, its incarnation, and the mark of a clean shutdown.

The identity is a sealed record (`records.seal`) of kind SGM under the key "store"; its version is the format of the
whole store, its content the incarnation as u64. The presence of the key "clean" marks a clean shutdown. The key "turn"
changes when the caller needs a commit without other content: to free pages, or to test whether the store is writable.
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
