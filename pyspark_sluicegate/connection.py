"""One client for each gateway in each process, kept for as long as the process lives.

Spark uses its Python workers again, batch after batch, so tasks find the connection of the one before. A worker that
was forked has none of its parent's. In the driver a query's own thread and Spark's listener ask side by side.
"""

import os
from threading import Lock
from typing import Final

from pyspark_sluicegate.options import ConnectOptions
from sluicegate import BlockingBulk, BlockingClient

_clients: Final[dict[tuple[int, ConnectOptions], BlockingClient]] = {}
_connecting: Final = Lock()


def bulk_for(options: ConnectOptions) -> BlockingBulk:
    """Return reading and writing in bulk by this process's client of a gateway, connected.

    Raises OptionError, or what the client library does.
    """
    key = (os.getpid(), options)
    with _connecting:
        client = _clients.get(key)
        if client is not None and client.error is not None:
            del _clients[key]
            client.close()  # it has given up; its thread has not ended by that
            client = None
        if client is None:
            client = BlockingClient(options.url, options.client_options())
            client.__enter__()
            _clients[key] = client
        return client.bulk
