"""Errors of listeners, before any protocol runs. Each protocol has errors of its own."""


class ListenerError(Exception):
    """A listener cannot do what its configuration asks."""


class ListenerNotStarted(ListenerError):
    """The listener has no address: it was not started, or it was stopped."""


class TlsFilesRefused(ListenerError, ValueError):
    """A certificate, key or authority file is missing or unusable. The text names the file."""
