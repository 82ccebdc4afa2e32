"""The thread of a bridge: serves one connection of the foreign broker after the other, as a pykka actor.

Client libraries block or have a loop of their own, so they do not run on the broker's. The thread holds the
interpreter lock while it works; what it saves the loop is the waiting, not the work.
"""

import asyncio
import logging
import queue
from dataclasses import dataclass
from typing import Any

import pykka
from pykka._envelope import Envelope

from sluicegate.protocols.bridges.remote import Ended, Line, RemoteBroker, RemoteFailed

log = logging.getLogger("sluicegate.bridges")


@dataclass(frozen=True, slots=True)
class Connect:
    """Bridge -> thread: serve a connection until it ends, and report that to the line."""


@dataclass(frozen=True, slots=True)
class Forget:
    """Bridge -> thread: messages without an outcome are given up."""


CONNECT = Connect()
FORGET = Forget()


class RemoteThread(pykka.ThreadingActor):
    """Runs a remote. It ends with the program: a library that does not return holds up nothing."""

    use_daemon_thread = True

    def __init__(self, remote: RemoteBroker, line: Line) -> None:
        super().__init__()
        self._remote = remote
        self._line = line

    @staticmethod
    def _create_actor_inbox() -> "queue.SimpleQueue[Envelope[Any]]":
        return queue.SimpleQueue()

    def on_receive(self, message: Connect | Forget) -> None:
        """Serve a connection, and report its end in any case: the bridge waits for it."""
        if isinstance(message, Forget):
            self._forget()
            return
        is_fault = False
        try:
            self._remote.run()
            reason = ""
        except RemoteFailed as failure:
            reason = str(failure) or "no reason was given"
        except (Exception, asyncio.CancelledError) as error:  # ours, or the library's
            log.exception("bridge %r: the connection to %s failed", self._remote.settings.name, self._url())
            reason, is_fault = f"a fault of the client: {error!r}", True
        self._line.wake_with(None)
        self._line.forget_arrivals()
        self._line.ended(Ended(reason, is_fault))

    def on_stop(self) -> None:
        """Let the remote close what it has kept."""
        self._forget()

    def _forget(self) -> None:
        # What a thread raises ends it, and CancelledError, which is no Exception, all actors of pykka with it.
        try:
            self._remote.forget()
        except (Exception, asyncio.CancelledError):  # ours, or the library's
            log.exception("bridge %r: the client of %s does not close", self._remote.settings.name, self._url())

    def _url(self) -> str:
        return self._remote.settings.remote.url()
