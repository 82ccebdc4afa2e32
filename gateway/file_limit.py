"""How many files the gateway's process may have open: each connection is one."""

import logging
import resource
from typing import Final

from gateway.config.model import Config

log = logging.getLogger("sluicegate.node")

FILES_OF_THE_NODE: Final = 100  # beside its clients' sockets: database, log, listeners, loop


def raise_file_limit(config: Config) -> None:
    """Let the process open as many files as it may, and log a warning if a node may want more.

    Shells and systemd start programs with a soft limit of 1024 for the sake of those that call select(2), which this
    one does not, and let each raise it up to the hard one.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    wanted = files_wanted(config)
    if most != resource.RLIM_INFINITY and most < wanted:
        text = "listeners: max_connections: together %d files may be wanted, and this process may open %d:"
        log.warning(text + " connections beyond are reset", wanted, most)


def files_wanted(config: Config) -> int:
    """Return how many files a node opens when all its listeners have all connections that they may have."""
    return sum(listener.max_connections for listener in config.listeners.enabled().values()) + FILES_OF_THE_NODE
