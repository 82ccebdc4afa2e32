"""Free ports for brokers, and which settings have ports.

Ports are below the range that systems give to clients. A client that connects again while its broker is down would
otherwise sometimes be given the broker's own port, and be connected to itself.
"""

import os
import random
import re
import socket
import zlib
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

_given_out: set[int] = set()  # one broker has several, and one that is down keeps its ports


def free_port() -> int:
    """Return a port on which no program listens and that no other caller in this process was given."""
    draw = random.Random()  # other runs on this machine choose too
    while True:
        port = draw.choice(PORTS)
        if port not in _given_out and is_free(port):
            _given_out.add(port)
            return port


def is_free(port: int) -> bool:
    """Return whether no program listens on a port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def give_back(port: int) -> None:
    """Let others have a port again: its broker does not start any more."""
    _given_out.discard(port)
