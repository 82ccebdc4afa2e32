"""Streaming a consistent copy of an LMDB environment that is being written to.

LMDB copies under one read transaction: the copy contains all earlier commits and no later one, and commits continue
meanwhile. LMDB compacts the copy (it omits free pages) and needs no interpreter lock. Its output goes through a socket,
because a socket can be shut down: a copy directly into a file could not be stopped early.

While a copy runs, three rules apply. The map must stay in place, so the store ends the copy before it moves the map.
py-lmdb waits for running operations before it aborts a transaction, so the store also ends the copy before it aborts.
And pages freed by commits cannot be reused, so the spool grows by the messages settled meanwhile.

See also: the destination of the bytes (storage.backup.backup), moves of the map (storage.store.store).
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
    """The copies of one environment: one at a time. The store ends a copy when it needs the environment alone.

    A copy ends when its socket is shut down, even while its sink blocks: an unresponsive backup disk must not delay the
    spool.
    """

    def __init__(self, env: lmdb.Environment) -> None:
        self._env = env
        self._streaming = threading.Lock()  # held while a sink is served
        self._walking = threading.Lock()  # held while LMDB copies
        self._state = threading.Lock()  # of what follows
        self._writing: socket.socket | None = None  # LMDB writes to it
        self._barred = ""  # the reason why no copy is allowed now
        self._ended_by = ""  # the reason why the current copy ended early
        self._closed = False

    def stream(self, sink: Callable[[bytes], None]) -> None:
        """Pass a copy of the data file to `sink`, piece by piece. Blocks: for a separate thread.

        Raises BackupEnded, lmdb.Error, and the errors of the sink, which end the copy.
        """
        with self._streaming:
            reading, writing = socket.socketpair()
            with reading, writing:
                self._pump(reading, writing, sink)

    def end(self, why: str) -> None:
        """End a running copy, without waiting for its end or preventing others."""
        with self._state:
            self._end(why)
            self._barred = ""

    @contextmanager
    def barred(self, why: str) -> Iterator[None]:
        """End a running copy, wait until LMDB has released the environment, and prevent copies within the block."""
        with self._state:
            self._end(why)
        try:
            with self._walking:
                yield
        finally:
            self._barred = ""

    def close(self) -> None:
        """End a running copy, wait until LMDB has released the environment, and prevent all later copies."""
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
            _shut_down(reading)  # an unfinished copy gets EPIPE
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
        except BaseException as error:  # raised where the copy is read
            failures.append(error)
        finally:
            self._release(writing)

    def _release(self, writing: socket.socket) -> None:
        with self._state:
            self._writing = None
            _shut_down(writing)  # the reader comes to the end
            self._walking.release()


def _shut_down(end: socket.socket) -> None:
    """Shut the socket down; has no effect when the other side did so first."""
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
