"""A connection of a test's client that closes when the gateway has closed, as programs do.

asyncio's own connection keeps its half open until the program closes it, and a gateway that stops gives each such
client a second.
"""

import asyncio
import ssl


class _ClosingProtocol(asyncio.StreamReaderProtocol):
    def eof_received(self) -> bool:
        super().eof_received()
        return False  # nothing more is to be written


class _ClosingWriter(asyncio.StreamWriter):
    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self.is_closing():  # else nobody hears it, as with any socket
            super().write(data)


async def open_closing(
    port: int, *, tls: ssl.SSLContext | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a port of this machine. What came before the end can still be read after it."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 22)
    protocol = _ClosingProtocol(reader)
    transport, _ = await loop.create_connection(lambda: protocol, "127.0.0.1", port, ssl=tls)
    return reader, _ClosingWriter(transport, protocol, reader, loop)
