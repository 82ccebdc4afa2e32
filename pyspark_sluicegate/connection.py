"""One client for each gateway in each process, for the life of the process.

Spark reuses its Python workers for many batches, so a task finds the connection of an earlier task. A forked worker
does not use the connections of its parent. In the driver, a query's own thread and Spark's listener call at the same
time.
"""

import os
import time
from threading import Lock
from typing import Final

from pyspark_sluicegate.options import ConnectOptions
from sluicegate import BlockingBulk, BlockingClient, ConnectFailed

CONNECT_AGAIN_AFTER_S: Final = 0.5  # between attempts of a first connection; the client library restores broken ones

_clients: Final[dict[tuple[int, ConnectOptions], BlockingClient]] = {}
_connecting: Final = Lock()


def bulk_for(options: ConnectOptions) -> BlockingBulk:
    """Return the bulk operations of this process's client of a gateway, connected.

    Waits up to `retryMs` for an absent gateway: tasks start at any time, also during its restart. Raises OptionError,
    and the errors of the client library.
    """
    key = (os.getpid(), options)
    with _connecting:
        client = _clients.get(key)
        if client is not None and client.error is not None:
            del _clients[key]
            client.close()  # it has given up, but its thread still runs
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
