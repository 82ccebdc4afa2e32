"""One client for each gateway in each process, kept for as long as the process lives.

Spark uses its Python workers again, batch after batch, so tasks find the connection of the one before. A worker that
was forked has none of its parent's. In the driver a query's own thread and Spark's listener ask side by side.
"""

import os
import time
from threading import Lock
from typing import Final

from pyspark_sluicegate.options import ConnectOptions
from sluicegate import BlockingBulk, BlockingClient, ConnectFailed

CONNECT_AGAIN_AFTER_S: Final = 0.5  # of a first connection; those that broke are the client library's

_clients: Final[dict[tuple[int, ConnectOptions], BlockingClient]] = {}
_connecting: Final = Lock()


def bulk_for(options: ConnectOptions) -> BlockingBulk:
    """Return reading and writing in bulk by this process's client of a gateway, connected.

    Waits up to `retryMs` for a gateway that is not there: tasks begin at any time, also while it starts again. Raises
    OptionError, or what the client library does.
    """
    key = (os.getpid(), options)
    with _connecting:
        client = _clients.get(key)
        if client is not None and client.error is not None:
            del _clients[key]
            client.close()  # it has given up; its thread has not ended by that
            client = None
        if client is None:
            client = _connected(options)
            _clients[key] = client
        return client.bulk


def _connected(options: ConnectOptions) -> BlockingClient:
    give_up_s = time.monotonic() + options.retry_ms / 1000
    while True:
        client = BlockingClient(options.url, options.client_options())
        try:
            return client.__enter__()
        except ConnectFailed:
            if time.monotonic() > give_up_s:
                raise
        time.sleep(CONNECT_AGAIN_AFTER_S)
