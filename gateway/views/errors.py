"""Errors that operators are answered with: not found, already exists, refused; and why a node cannot start.

A wrong request is `messaging.queues.definition.QueueInvalid`.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from socket import gaierror
from typing import ClassVar

from sluicegate.gateway.config.document import ConfigError, ConfigUnreadable
from sluicegate.protocols.transport.tls.context import TlsFilesRefused


class NotFound(LookupError):
    """No object of that name exists. `kind` is the kind of object."""

    kind: ClassVar[str]

    def __init__(self, name: str, text: str = "") -> None:
        super().__init__(text or f"there is no {self.kind} {name!r}")
        self.name = name


class AlreadyExists(ValueError):
    """An object of that name exists already; it was not changed. `kind` is the kind of object."""

    kind: ClassVar[str]

    def __init__(self, name: str) -> None:
        super().__init__(f"there is a {self.kind} {name!r} already")
        self.name = name


class QueueNotFound(NotFound):
    """No queue has that name."""

    kind = "queue"


class VpnNotFound(NotFound):
    """No message VPN has that name."""

    kind = "message VPN"


class CursorNotFound(NotFound):
    """The queue has no durable cursor of that name."""

    kind = "cursor"

    def __init__(self, queue: str, cursor: str) -> None:
        super().__init__(cursor, f"queue {queue!r} has no cursor {cursor!r}")


class SelectorNotFound(NotFound):
    """No such queue of a selector-aware virtual topic exists, or it remembers nothing of that subscriber."""

    kind = "durable selector"

    def __init__(self, queue: str, subscriber: str) -> None:
        super().__init__(subscriber, f"queue {queue!r} has no durable selector of {subscriber!r}")


class ClientNotFound(NotFound):
    """No client of that name is connected."""

    kind = "client"


class SessionNotFound(NotFound):
    """No MQTT client of that identifier has a session."""

    kind = "MQTT session"


class RetainedMessageNotFound(NotFound):
    """Nothing is retained on that topic."""

    kind = "retained message"

    def __init__(self, topic: str) -> None:
        super().__init__(topic, f"nothing is retained on topic {topic!r}")


class TemplateNotFound(NotFound):
    """No queue template has that name."""

    kind = "queue template"


class SubscriptionNotFound(NotFound):
    """The queue has no such subscription."""

    kind = "subscription"


class RestDeliveryPointNotFound(NotFound):
    """No REST delivery point has that name."""

    kind = "REST delivery point"


class LinkNotFound(NotFound):
    """No link to a neighbor broker of that name exists."""

    kind = "link"


class BridgeNotFound(NotFound):
    """No bridge has that name."""

    kind = "bridge"


class UserNotFound(NotFound):
    """No user has that name."""

    kind = "user"


class ClientProfileNotFound(NotFound):
    """No client profile has that name."""

    kind = "client profile"


class AclProfileNotFound(NotFound):
    """No ACL profile has that name."""

    kind = "ACL profile"


class AclExceptionNotFound(NotFound):
    """The ACL profile has no such exception."""

    kind = "exception"


class VpnAlreadyExists(AlreadyExists):
    """A message VPN of that name exists already."""

    kind = "message VPN"


class QueueAlreadyExists(AlreadyExists):
    """A queue of that name exists already."""

    kind = "queue"


class TemplateAlreadyExists(AlreadyExists):
    """A queue template of that name exists already."""

    kind = "queue template"


class SubscriptionAlreadyExists(AlreadyExists):
    """The queue has that subscription already."""

    kind = "subscription"


class LinkAlreadyExists(AlreadyExists):
    """A link to a neighbor broker of that name exists already."""

    kind = "link"


class RestDeliveryPointAlreadyExists(AlreadyExists):
    """A REST delivery point of that name exists already."""

    kind = "REST delivery point"


class BridgeAlreadyExists(AlreadyExists):
    """A bridge of that name exists already."""

    kind = "bridge"


class UserAlreadyExists(AlreadyExists):
    """A user of that name exists already."""

    kind = "user"


class ClientProfileAlreadyExists(AlreadyExists):
    """A client profile of that name exists already."""

    kind = "client profile"


class AclProfileAlreadyExists(AlreadyExists):
    """An ACL profile of that name exists already."""

    kind = "ACL profile"


class AclExceptionAlreadyExists(AlreadyExists):
    """The ACL profile has that exception already."""

    kind = "exception"


class Refused(RuntimeError):
    """The node refuses an operation in its present state. The reason says what would have to change."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class NotReady(Refused):
    """The node or replica starts, and takes the operation in a moment."""


# --- why a node cannot start: a port in use, an unusable folder ---


class CannotStart(Exception):
    """The node cannot start, because of its environment. `advice` says what would help."""

    def __init__(self, text: str, *, advice: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.advice = advice


@contextmanager
def reading_configuration() -> Iterator[None]:
    """Raise Refused for a configuration that is not taken over: unreadable, invalid, or with an unusable file."""
    try:
        yield
    except ConfigUnreadable as problem:
        raise Refused(str(problem)) from None
    except ConfigError as problem:
        raise Refused(f"the configuration is invalid: {problem}") from None
    except (OSError, ValueError) as problem:
        raise Refused(f"a file that the configuration names cannot be used: {problem}") from None


@contextmanager
def opening(setting: str, host: str, port: int) -> Iterator[None]:
    """Raise CannotStart for a port that cannot be opened, or whose certificate cannot be used.

    `setting` is the section of the port.
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
