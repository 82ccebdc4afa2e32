"""A spool from outside: its files, opened without the store, and programs that use it in another process."""

import os
import sys
from pathlib import Path

import lmdb


def same_imports() -> dict[str, str]:
    """Return the environment in which another Python imports what this one does."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def put_raw(folder: Path, database: str, key: bytes, value: bytes) -> None:
    """Put any bytes under any key of a closed store."""
    with _environment(folder) as env, env.begin(write=True) as txn:
        txn.put(key, value, db=env.open_db(database.encode(), txn=txn))


def get_raw(folder: Path, database: str, key: bytes) -> bytes:
    """Return the bytes under a key of a closed store."""
    with _environment(folder) as env, env.begin(write=True) as txn:
        value = txn.get(key, db=env.open_db(database.encode(), txn=txn))
    assert value is not None
    return value


def flip_raw(folder: Path, database: str, key: bytes, position: int) -> None:
    """Change one byte of what lies under a key."""
    damaged = bytearray(get_raw(folder, database, key))
    damaged[position] ^= 0x40
    put_raw(folder, database, key, bytes(damaged))


def _environment(folder: Path) -> lmdb.Environment:
    return lmdb.open(str(folder), map_size=1 << 24, max_dbs=16)
