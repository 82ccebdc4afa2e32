"""Finds the rows whose keys begin with a prefix, in the state and in the log, while commits and checkpoints go on."""

import threading
from collections.abc import Callable, Iterator, Mapping
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
    keys: list[bytes] = []
    for stored, data in _rows_as_stored(prefix, env, database, changed, remap, is_shortened):
        _add(keys, stored, data)
    return keys


def rows_under(
    prefix: bytes,
    env: lmdb.Environment,
    database: "_Database",
    changed: Mapping[bytes, bytes | None],
    remap: threading.Lock,
) -> dict[bytes, bytes]:
    """Return the rows of one table whose keys begin with a prefix. One that is damaged is left out."""
    rows: dict[bytes, bytes] = {}
    for _, data in _rows_as_stored(prefix, env, database, changed, remap, lambda key: True):
        with suppress(DamagedRecord):
            key, value = decode_row(data)
            rows[key] = value
    return rows


def _rows_as_stored(
    prefix: bytes,
    env: lmdb.Environment,
    database: "_Database",
    changed: Mapping[bytes, bytes | None],
    remap: threading.Lock,
    wants_data: Callable[[bytes], bool],
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the stored keys that begin with a prefix, and the data of those that are wanted."""
    assert 0 < len(prefix) <= PREFIX_BYTES_MAX
    for stored, data in _state_rows(prefix, env, database, remap, wants_data):
        if stored not in changed:
            yield stored, data
    for stored, changed_to in changed.items():
        if changed_to is not None and stored.startswith(prefix):
            yield stored, changed_to


def _add(keys: list[bytes], stored: bytes, data: bytes) -> None:
    if is_shortened(stored):
        with suppress(DamagedRecord):  # what its key was is unknown: the next start sets it aside
            keys.append(decode_row(data)[0])
    else:
        keys.append(stored)


def _state_rows(
    prefix: bytes,
    env: lmdb.Environment,
    database: "_Database",
    remap: threading.Lock,
    wants_data: Callable[[bytes], bool],
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys in the state that begin with a prefix, and the data of those that are wanted."""
    first = prefix
    while True:
        part: list[tuple[bytes, bytes]] = []
        with remap, env.begin() as txn, txn.cursor(db=database) as cursor:
            found = cursor.set_range(first)
            while found and len(part) < KEYS_PER_READ and cursor.key().startswith(prefix):
                key = cursor.key()
                part.append((key, cursor.value() if wants_data(key) else b""))
                found = cursor.next()
        yield from part
        if len(part) < KEYS_PER_READ:
            return
        first = part[-1][0] + b"\0"  # the smallest key behind the last one
