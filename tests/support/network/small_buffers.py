"""Sockets of which the system keeps little: what a peer does not read comes to bear at once, not megabytes later."""

import os
import socket
from pathlib import Path
from typing import Final

FEW_BYTES: Final = 4096


def buffer_little(own: socket.socket) -> None:
    """Have the system keep a few packets that are sent to this socket, and at the other end, in this process, as few.

    It would take megabytes of answers, and some answers are a few bytes each.
    """
    own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, FEW_BYTES)
    for file in Path("/proc/self/fd").iterdir():
        if file.is_socket():
            with socket.socket(fileno=os.dup(int(file.name))) as other:
                if other.family == socket.AF_INET and other.getsockname() == own.getpeername():
                    other.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, FEW_BYTES)
