"""A TLS client that sends its records as a test says: divided anywhere, several at once, or not at all."""

import asyncio
import ssl
from contextlib import suppress

from sluicegate.protocols.transport.listeners import Listener


class TlsRecords:
    """One client. Its records go out when the test sends them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext) -> None:
        self.writer = writer
        self._reader = reader
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")

    @classmethod
    async def dials(cls, listener: Listener, context: ssl.SSLContext) -> "TlsRecords":
        """Connect, and send nothing yet."""
        return cls(*await asyncio.open_connection("127.0.0.1", listener.port), context)

    async def shakes_hands(self) -> bytes:
        """Go on until the handshake is over here; return the last of it, which is yet to be sent."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self.writer.write(self._outgoing.read())
                self._incoming.write(await self._came())
            else:
                return self._outgoing.read()

    def enclosed(self, data: bytes) -> bytes:
        """Return data in records."""
        self._tls.write(data)
        return self._outgoing.read()

    def end(self) -> bytes:
        """Return the record that ends the stream."""
        with suppress(ssl.SSLError):  # the other side has not said so
            self._tls.unwrap()
        return self._outgoing.read()

    async def reads(self) -> bytes:
        """Return what comes next; nothing at the end that is said in TLS. Raises ssl.SSLError for an alert."""
        while True:
            try:
                return self._tls.read(1 << 16)
            except ssl.SSLZeroReturnError:
                return b""
            except ssl.SSLWantReadError:
                self._incoming.write(await self._came())

    async def _came(self) -> bytes:
        data = await self._reader.read(1 << 16)
        if not data:
            raise ConnectionError("the stream ended without a word of TLS")
        return data
