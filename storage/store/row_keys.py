"""Finds the keys of rows that begin with a prefix, in the state and in the log, while commits and checkpoints go on."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import lmdb

from sluicegate.storage.errors import DamagedRecord
from sluicegate.storage.records.table import decode_row, is_shortened

if TYPE_CHECKING:
    from lmdb import _Database

KEYS_PER_READ: Final = 1000  # as many as are read without letting the map move
PREFIX_BYTES_MAX: Final = 64  # far shorter than a shortened key, which then begins with the same prefix


def keys_under(
    prefix: bytes,
    env: lmdb.Environment,
    database: "_Database",
    changed: Mapping[bytes, bytes | None],
    remap: threading.Lock,
) -> list[bytes]:
    """Return the keys of the rows of one table that begin with a prefix.

    `changed` are the rows that the log changes, by stored key; they were read before the state.
    """
    assert 0 < len(prefix) <= PREFIX_BYTES_MAX
    keys: list[bytes] = []
    for stored, data in _stored_rows(prefix, env, database, remap):
        if stored not in changed:
            _add(keys, stored, data)
    for stored, changed_to in changed.items():
        if changed_to is not None and stored.startswith(prefix):
            _add(keys, stored, changed_to)
    return keys


def _add(keys: list[bytes], stored: bytes, data: bytes) -> None:
    if is_shortened(stored):
        with suppress(DamagedRecord):  # what its key was is unknown: the next start sets it aside
            keys.append(decode_row(data)[0])
    else:
        keys.append(stored)


def _stored_rows(
    prefix: bytes, env: lmdb.Environment, database: "_Database", remap: threading.Lock
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the stored keys that begin with a prefix, and the data of those that are not the whole key."""
    first = prefix
    while True:
        part: list[tuple[bytes, bytes]] = []
        with remap, env.begin() as txn, txn.cursor(db=database) as cursor:
            found = cursor.set_range(first)
            while found and len(part) < KEYS_PER_READ and cursor.key().startswith(prefix):
                key = cursor.key()
                part.append((key, cursor.value() if is_shortened(key) else b""))
                found = cursor.next()
        yield from part
        if len(part) < KEYS_PER_READ:
            return
        first = part[-1][0] + b"\0"  # the smallest key behind the last one
