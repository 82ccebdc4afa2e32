"""Why a node cannot start, in words for who starts it: a port that is taken, a folder that cannot be used."""

import errno


class CannotStart(Exception):
    """The node cannot start, for a reason outside of it. `advice` says what would help."""

    def __init__(self, text: str, *, advice: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.advice = advice


def cannot_listen(setting: str, host: str, port: int, error: OSError) -> CannotStart:
    """Return what to say of a port that cannot be had. `setting` is the section that asks for it."""
    reason = error.strerror or str(error)
    advice = f"Another port: --set {setting}.port=PORT, 0 for any free one."
    if error.errno == errno.EADDRINUSE:
        reason = "another program listens there"
    elif error.errno == errno.EADDRNOTAVAIL:
        reason, advice = "that is no address of this machine", f"Another one: --set {setting}.host=ADDRESS."
    return CannotStart(f"{setting} cannot listen on {host}:{port}: {reason}", advice=advice)
