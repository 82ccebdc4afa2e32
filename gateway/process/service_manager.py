"""Tell the service manager that started the process, such as systemd, how far it is: the protocol of sd_notify(3)."""

import logging
import os
import socket
from typing import Final

log = logging.getLogger("sluicegate.node")

ADDRESS_VARIABLE: Final = "NOTIFY_SOCKET"  # set where somebody waits for it: `Type=notify` in a unit of systemd


def tell_ready(status: str) -> None:
    """Say that the process serves, with one line for `systemctl status`. Does nothing where nobody waits for it."""
    address = os.environ.get(ADDRESS_VARIABLE)
    if not address:
        return
    if address.startswith("@"):  # an abstract socket, as the variable spells it
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as manager:
            manager.connect(address)
            manager.sendall(f"READY=1\nSTATUS={status}\n".encode())
    except OSError as error:  # a manager that hears nothing stops the process after a time: say why
        log.warning("cannot tell the service manager that the node is ready: %s", error.strerror)
