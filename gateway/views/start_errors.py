"""Why a node cannot start, in words for who starts it: a port that is taken, a folder that cannot be used."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from socket import gaierror

from sluicegate.protocols.transport.errors import TlsFilesRefused


class CannotStart(Exception):
    """The node cannot start, for a reason outside of it. `advice` says what would help."""

    def __init__(self, text: str, *, advice: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.advice = advice


@contextmanager
def opening(setting: str, host: str, port: int) -> Iterator[None]:
    """Raise CannotStart for a port that cannot be had, or whose certificate cannot be used.

    `setting` is the section that asks for it.
    """
    try:
        yield
    except OSError as error:
        raise _cannot_listen(setting, host, port, error) from None
    except TlsFilesRefused as refusal:
        raise CannotStart(f"{setting}: {refusal}") from None


def _cannot_listen(setting: str, host: str, port: int, error: OSError) -> CannotStart:
    reason = error.strerror or str(error)
    advice = f"Another port: --set {setting}.port=PORT, 0 for any free one."
    if error.errno == errno.EADDRINUSE:
        reason = "another program listens there"
    elif error.errno == errno.EADDRNOTAVAIL or isinstance(error, gaierror):
        reason, advice = "that is no address of this machine", f"Another one: --set {setting}.host=ADDRESS."
    return CannotStart(f"{setting} cannot listen on {host}:{port}: {reason}", advice=advice)
