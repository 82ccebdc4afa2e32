"""Streaming a consistent copy of an LMDB environment that is being written to.

LMDB copies under one read transaction: what was committed before it began is in the copy, nothing later is, and commits
go on meanwhile. It compacts as it goes (free pages are left out) and needs no interpreter lock. Its output goes through
a socket, because that can be shut down: a copy straight into a file could not be ended before it is whole.

While a copy runs, three things hold. The map must stay where it is, so whoever moves it ends the copy first. py-lmdb
waits for all that is under way before it aborts a transaction, so whoever has to abort ends the copy first, too. And
what commits free cannot be used again, so a spool that is written to grows by what is settled meanwhile.

See also: what becomes of the bytes (storage.backup.backup), when the map moves (storage.store.store).
"""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, final

import lmdb

from sluicegate.storage.errors import BackupEnded

PIECE_BYTES: Final = 1 << 18  # a socket pair of Linux holds about as much

STORE_CLOSED: Final = "the store was closed"


@final
class Copying:
    """The copies of one environment: one at a time, and ended by whoever needs the environment for itself.

    A copy ends when its socket is shut down, whatever its sink is doing: the disk of a backup that does not answer must
    not hold up the spool.
    """

    def __init__(self, env: lmdb.Environment) -> None:
        self._env = env
        self._streaming = threading.Lock()  # held while a sink is served
        self._walking = threading.Lock()  # held while LMDB copies
        self._state = threading.Lock()  # of what follows
        self._writing: socket.socket | None = None  # what LMDB writes to
        self._barred = ""  # why there may be no copy now
        self._ended_by = ""  # why the present copy has ended too early
        self._closed = False

    def stream(self, sink: Callable[[bytes], None]) -> None:
        """Hand a copy of the data file to `sink`, piece by piece. Blocks: for a thread of its own.

        Raises BackupEnded, lmdb.Error, and whatever the sink raises, which ends the copy.
        """
        with self._streaming:
            reading, writing = socket.socketpair()
            with reading, writing:
                self._pump(reading, writing, sink)

    def end(self, why: str) -> None:
        """End a copy that runs. It does not wait for that, nor keep others out."""
        with self._state:
            self._end(why)
            self._barred = ""

    @contextmanager
    def barred(self, why: str) -> Iterator[None]:
        """End a copy that runs, wait until LMDB has let go, and keep others out for the length of the block."""
        with self._state:
            self._end(why)
        try:
            with self._walking:
                yield
        finally:
            self._barred = ""

    def close(self) -> None:
        """End a copy that runs, wait until LMDB has let go, and let none begin any more."""
        with self._state:
            self._end(STORE_CLOSED)
            self._closed = True
        with self._walking:
            pass

    def _end(self, why: str) -> None:
        self._barred = why
        if self._writing is not None:
            self._ended_by = why
            _shut_down(self._writing)

    def _pump(self, reading: socket.socket, writing: socket.socket, sink: Callable[[bytes], None]) -> None:
        failures: list[BaseException] = []
        copier = threading.Thread(target=self._copy, args=(writing, failures), name="spool-copy", daemon=True)
        with self._state:
            if self._barred or self._closed:
                raise BackupEnded(STORE_CLOSED if self._closed else self._barred)
            self._walking.acquire()
            self._writing = writing
            self._ended_by = ""
        try:
            try:
                copier.start()
            except BaseException:
                self._release(writing)
                raise
            while piece := reading.recv(PIECE_BYTES):
                self._check()
                sink(piece)
        finally:
            _shut_down(reading)  # a copy that is not at its end gets EPIPE
            if copier.ident is not None:
                copier.join()
        self._check()
        if failures:
            raise failures[0]

    def _check(self) -> None:
        if self._ended_by:
            raise BackupEnded(self._ended_by)

    def _copy(self, writing: socket.socket, failures: list[BaseException]) -> None:
        try:
            self._env.copyfd(writing.fileno(), compact=True)
        except BaseException as error:  # to be raised where the copy is read
            failures.append(error)
        finally:
            self._release(writing)

    def _release(self, writing: socket.socket) -> None:
        with self._state:
            self._writing = None
            _shut_down(writing)  # the reader comes to the end
            self._walking.release()


def _shut_down(end: socket.socket) -> None:
    """Let nothing more pass; nothing passes any more when the other side was first."""
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
