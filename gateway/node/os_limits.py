"""Limits of the operating system: how many files the process may open, and how much freed memory it keeps."""

import ctypes
import logging
import resource
import sys
from typing import Final

from sluicegate.gateway.config.model import Config

log = logging.getLogger("sluicegate.node")

FILES_OF_THE_NODE: Final = 100  # besides sockets of clients: database, log, listeners, loop, and those below
FILES_KEPT_BACK: Final = 50  # for operators, probes, backups and certificates, when clients use all others
KEPT_BACK_SHARE: Final = 16  # of a limit below 800 one in so many: the alert at nine tenths has to come before


def raise_file_limit(config: Config) -> None:
    """Let the process open as many files as it may, and log a warning if the configuration asks for more.

    A listener has a maximum of 10,000 connections unless it is configured. Where the process may open fewer files than
    these defaults add up to, their sum is bounded by that (`files_for_clients`): this is logged at INFO.

    Shells and systemd start programs with a soft limit of 1024 for the sake of those that call select(2), which this
    one does not, and let each raise it up to the hard one.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if most == resource.RLIM_INFINITY:
        return
    wanted = files_configured(config)
    if most < wanted:
        text = "listeners: max_connections: %d files may be needed, and this process may open %d:"
        log.warning(text + " further clients are closed at once", wanted, most)
    elif most < files_wanted(config):
        text = "this process may open %d files, so all listeners together accept up to %d connections"
        log.info(text, most, most - FILES_OF_THE_NODE)


def files_for_clients() -> int:
    """Return the count of open files from which on new clients are refused."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return sys.maxsize
    return allowed - min(FILES_KEPT_BACK, allowed // KEPT_BACK_SHARE)


def files_wanted(config: Config) -> int:
    """Return how many files a node opens when all listeners have their maximum of connections."""
    return sum(listener.max_connections for listener in config.listeners.enabled().values()) + FILES_OF_THE_NODE


def files_configured(config: Config) -> int:
    """Return the same for the listeners whose maximum is configured; the others share what the process may open."""
    listeners = config.listeners.enabled().values()
    chosen = [each.max_connections for each in listeners if "max_connections" in each.model_fields_set]
    return sum(chosen) + FILES_OF_THE_NODE


HEAP_BUFFER_BYTES_MAX: Final = 32 << 20  # the most that glibc takes for its limit of what is mapped singly
KEPT_BYTES: Final = 8 << 20  # of each heap: the loop has one, and each thread of the store

_M_TRIM_THRESHOLD: Final = -1  # malloc.h
_M_MMAP_THRESHOLD: Final = -3


def keep_freed_memory() -> None:
    """Have glibc take buffers of up to `HEAP_BUFFER_BYTES_MAX` from its heaps, and keep `KEPT_BYTES` free in each.

    By itself it gives a large buffer back to the kernel at once, and the next one's pages are made and zeroed anew:
    half of what a message of 1 MiB costs. A C library that has no `mallopt` goes on as it is.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, HEAP_BUFFER_BYTES_MAX)
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
