"""A connection as a stream calls it: a base class for compiled ones, and a wrapper for the others.

Apart from the interface, which the client library needs without mypyc's package.
"""

from typing import final

from mypy_extensions import trait

from sluicegate.protocols.transport.interface import Connection


@trait
class StreamUser:
    """What a stream tells its connection. Compiled connections inherit it, and are called without a look-up by name."""

    def received(self, data: bytes) -> None:
        """See `Connection`."""

    def closed(self, error: Exception | None) -> None:
        """See `Connection`."""

    def writing_paused(self) -> None:
        """See `Connection`."""

    def writing_resumed(self) -> None:
        """See `Connection`."""


@final
class InterpretedUser(StreamUser):
    """An interpreted connection, which cannot inherit from a compiled trait."""

    def __init__(self, connection: Connection) -> None:
        self._received = connection.received
        self._connection = connection

    def received(self, data: bytes) -> None:
        """Pass it on."""
        self._received(data)

    def closed(self, error: Exception | None) -> None:
        """Pass it on."""
        self._connection.closed(error)

    def writing_paused(self) -> None:
        """Pass it on."""
        self._connection.writing_paused()

    def writing_resumed(self) -> None:
        """Pass it on."""
        self._connection.writing_resumed()
