"""Streaming a consistent copy of an LMDB environment that is being written to.

LMDB copies under one read transaction: what was committed before it began is in the copy, nothing later is, and commits
go on meanwhile. It compacts as it goes (free pages are left out) and needs no interpreter lock. Its output goes through
a pipe, because a pipe can be closed: a copy straight into a file could not be ended before it is whole.

While a copy runs, two things hold. The map must stay where it is, so whoever moves it ends the copy first. And what
commits free cannot be used again, so a spool that is written to grows by what is settled meanwhile.

Deliberately elsewhere: what becomes of the bytes (storage.backup), when the map moves (storage.store).
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, final

import lmdb

from storage.errors import BackupEnded

PIECE_BYTES: Final = 1 << 16  # what a pipe holds on Linux

STORE_CLOSED: Final = "the store was closed"


@final
class Copying:
    """The copies of one environment: one at a time, and ended by whoever needs the map for itself."""

    def __init__(self, env: lmdb.Environment) -> None:
        self._env = env
        self._running = threading.Lock()  # held for the length of a copy
        self._barred = ""  # why a copy has to end now
        self._closed = False

    def stream(self, sink: Callable[[bytes], None]) -> None:
        """Hand a copy of the data file to `sink`, piece by piece. Blocks: for a thread of its own.

        Raises BackupEnded, lmdb.Error, and whatever the sink raises, which ends the copy.
        """
        self._check()
        with self._running:
            self._check()
            self._pump(sink)

    @contextmanager
    def barred(self, why: str) -> Iterator[None]:
        """End a copy that runs, which takes as long as its sink takes for a piece, and keep others out meanwhile."""
        self._barred = why
        try:
            with self._running:
                yield
        finally:
            self._barred = ""

    def close(self, *, within_s: float) -> bool:
        """End a copy that runs, and let none begin any more. Return whether that could be done in time."""
        self._closed = True
        return self._running.acquire(timeout=within_s)

    def _pump(self, sink: Callable[[bytes], None]) -> None:
        reading, writing = os.pipe()
        failures: list[BaseException] = []
        copier = threading.Thread(target=_copy, args=(self._env, writing, failures), name="spool-copy", daemon=True)
        try:
            try:
                copier.start()
            except BaseException:
                os.close(writing)
                raise
            while piece := os.read(reading, PIECE_BYTES):
                self._check()
                sink(piece)
        finally:
            os.close(reading)  # a copy that is not at its end gets EPIPE
            if copier.ident is not None:
                copier.join()
        if failures:
            raise failures[0]

    def _check(self) -> None:
        why = STORE_CLOSED if self._closed else self._barred
        if why:
            raise BackupEnded(why)


def _copy(env: lmdb.Environment, writing: int, failures: list[BaseException]) -> None:
    try:
        env.copyfd(writing, compact=True)
    except BaseException as error:  # to be raised where the copy is read
        failures.append(error)
    finally:
        os.close(writing)
