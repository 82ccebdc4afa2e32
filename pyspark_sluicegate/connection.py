"""One client for each gateway in each process, kept for as long as the process lives.

Spark uses its Python workers again, batch after batch, so tasks find the connection of the one before. A worker that
was forked has none of its parent's.
"""

import os
from typing import Final

from pyspark_sluicegate.options import ConnectOptions
from sluicegate import BlockingBulk, BlockingClient

_clients: Final[dict[tuple[int, ConnectOptions], BlockingClient]] = {}


def client_for(options: ConnectOptions) -> BlockingClient:
    """Return this process's client of a gateway, connected. Raises OptionError, or what the client library does."""
    key = (os.getpid(), options)
    client = _clients.get(key)
    if client is None or client.error is not None:
        client = BlockingClient(options.url, options.client_options())
        client.__enter__()
        _clients[key] = client
    return client


def bulk_for(options: ConnectOptions) -> BlockingBulk:
    """Return reading and writing in bulk by this process's client. Raises as `client_for` does."""
    return client_for(options).bulk
