"""The end of a server of asyncio, which may be accepting a connection at that moment."""

import asyncio


async def close_server(server: asyncio.Server) -> None:
    """Close a server. A connection that it has just accepted gets its protocol first.

    `Server.close` alone leaves the socket of such a connection open: its transport can no longer be made.
    """
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening.fileno())
    await asyncio.sleep(0)
    server.close()
