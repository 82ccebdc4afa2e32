"""The exceptions of the client library. Programs act on types and codes; texts are for people.

Conditions that recover on their own are no errors: the client reconnects, and publishers and consumers wait for it.
"""

from typing import final

from sluicegate.protocols.flow.codec.codes import NAMES


class FlowClientError(Exception):
    """Whatever the library raises, but for arguments that make no sense: those are ValueError."""


@final
class ConnectFailed(FlowClientError):
    """The first connection could not be made, or none for `give_up_after_s`. Else they are tried again and again."""


@final
class AuthenticationRefused(FlowClientError):
    """The gateway does not believe this client, offers no mechanism for it, or could not prove who it is itself."""


@final
class ClientClosed(FlowClientError):
    """The client, its publisher or its consumer was closed by the program."""


class CodedError(FlowClientError):
    """The gateway refused. `code` is one of the table of errors in `docs/connect/flow-protocol.md`."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{NAMES.get(code, 'code')} ({code:#06x}): {text}")
        self.code = code
        self.text = text


@final
class RequestRefused(CodedError):
    """Something could not be opened, or a request failed. With `retry_after_ms` it makes sense to try again."""

    def __init__(self, code: int, text: str, retry_after_ms: int | None) -> None:
        super().__init__(code, text)
        self.retry_after_ms = retry_after_ms


@final
class RequestInterrupted(FlowClientError):
    """The connection broke before the answer to a request that must not be repeated."""


@final
class PublishRefused(CodedError):
    """Messages were refused, and are not stored. Code and text are those of the first; the publisher stays open."""

    def __init__(self, code: int, text: str, sequences: list[int], count: int) -> None:
        super().__init__(code, text)
        self.sequences = sequences  # of the messages, ascending; REFUSALS_KEPT_MAX at most are named
        self.count = count  # of all of them


@final
class MessageTooLarge(FlowClientError):
    """The message, or request, does not fit into a frame that the gateway takes. It was not sent."""


@final
class PublisherEnded(CodedError):
    """The gateway ended the publisher. With code `fenced`, the publisher of that name was opened elsewhere."""


@final
class PublisherForgotten(FlowClientError):
    """The gateway no longer knows the publisher: sending unanswered messages again might store them twice."""


@final
class ConsumerEnded(CodedError):
    """A consumer's or browser's flow is gone for good: its queue was deleted, or a right to it was taken away."""


@final
class ReadFailed(CodedError):
    """The gateway ended a range read. What arrived before stands; the cursor may be fenced, or the queue gone."""


@final
class IncarnationChanged(FlowClientError):
    """The gateway has another spool than before: sequences that the program remembers mean other messages now.

    For a named publisher: messages that were confirmed to it may be missing there. One that is opened anew knows which.
    """


@final
class ConnectionBroken(CodedError):
    """The gateway ended the connection for a fault that connecting again would only repeat."""
