"""Free ports for brokers, and which settings have ports.

Ports are below the range that systems give to clients. A client that connects again while its broker is down would
otherwise sometimes be given the broker's own port, and be connected to itself.
"""

import errno
import itertools
import os
import random
import re
import socket
import zlib
from collections.abc import Iterator
from typing import Final

LOOPBACK: Final = "127.0.0.1"
# Each worker of pytest-xdist has ports of its own: a broker takes some time from drawing one to listening on it, and
# one that is down for a while keeps its own.
WORKERS_MAX: Final = 16


def worker_number(worker: str) -> int:
    """Return the number at the end of a worker's name, such as `gw1`; for a name that has none, one of its own."""
    digits = re.search("[0-9]+$", worker)
    return int(digits[0]) if digits else zlib.crc32(worker.encode())


WORKER: Final = worker_number(os.environ.get("PYTEST_XDIST_WORKER", "gw0"))
PORTS: Final = range(18_000 + WORKER % WORKERS_MAX, 32_000, WORKERS_MAX)
# The section of the configuration, by the name that a broker announces its port with.
SECTIONS: Final = {
    "mqtt": "listeners.mqtt",
    "mqtt_tls": "listeners.mqtt_tls",
    "mqtt_websocket": "listeners.mqtt_websocket",
    "mqtt_websocket_tls": "listeners.mqtt_websocket_tls",
    "amqp": "listeners.amqp",
    "amqp_tls": "listeners.amqp_tls",
    "amqp_websocket": "listeners.amqp_websocket",
    "amqp_websocket_tls": "listeners.amqp_websocket_tls",
    "flow": "listeners.flow",
    "flow_tls": "listeners.flow_tls",
    "http": "listeners.http",
    "http_tls": "listeners.http_tls",
    "health": "health",
    "admin": "admin",
}

# In an order of its own in each process, and from its beginning again at its end: a port that was given comes back only
# after all others, when its broker is stopped or listens on it.
_next_ports: Iterator[int] = itertools.cycle(random.sample(PORTS, len(PORTS)))


def free_port() -> int:
    """Return a port on which no program listens, and that nobody in this process was given for a long time.

    Raises:
        OSError: programs listen on all ports.
    """
    for port in itertools.islice(_next_ports, len(PORTS)):
        if is_free(port):
            return port
    raise OSError(errno.EADDRINUSE, f"none of {len(PORTS)} ports from {PORTS[0]} to {PORTS[-1]} is free")


def is_free(port: int) -> bool:
    """Return whether no program listens on a port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
