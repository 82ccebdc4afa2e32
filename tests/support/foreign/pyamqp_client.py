"""Azure's pyamqp for tests: the AMQP 1.0 client inside its Event Hubs and Service Bus packages, over TLS.

It blocks: every method reads and writes the socket until the response has come.
"""

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from azure.eventhub import _pyamqp
from azure.eventhub._pyamqp.authentication import SASLPlainAuth
from azure.eventhub._pyamqp.constants import TransportType
from azure.eventhub._pyamqp.endpoints import Source
from azure.eventhub._pyamqp.message import Message
from azure.eventhub._pyamqp.sasl import SASLAnonymousCredential

ANSWER_S: Final = 20

# Half of their methods are annotated, and promise what they do not keep: no call here is checked against that.
_ReceiveClient: Any = _pyamqp.ReceiveClient
_SendClient: Any = _pyamqp.SendClient


def _link(port: int, authority: Path, container_id: str) -> dict[str, Any]:
    """Return what both kinds of clients take: where the gateway is, and that nobody needs a name there."""
    nobody: Any = SASLPlainAuth("", "")
    nobody.sasl = SASLAnonymousCredential()
    return {
        "auth": nobody,
        "client_name": container_id,
        "transport_type": TransportType.Amqp,
        "custom_endpoint_address": f"amqps://localhost:{port}",
        "connection_verify": str(authority),
        "idle_timeout": 60,
        "retry_total": 0,
    }


def send(port: int, authority: Path, address: str, *messages: Any) -> None:
    """Send messages, and wait until each is accepted. Raises the client's own error for one that is not."""
    client = _SendClient("localhost", address, **_link(port, authority, "pyamqp-sender"))
    try:
        for message in messages:
            client.send_message(message, timeout=ANSWER_S)
    finally:
        client.close()


def message(body: bytes, **parts: Any) -> Any:
    """Return a message with one data section."""
    return Message(data=[body], **parts)


class PyamqpReceiver:
    """A receiving link with a connection of its own, until the end of the `with` block."""

    def __init__(
        self, port: int, authority: Path, address: str, *, container_id: str = "pyamqp", credit: int = 10, **source: Any
    ) -> None:
        self._arrived: deque[tuple[Any, Any]] = deque()
        self._client = _ReceiveClient(
            "localhost",
            Source(address=address, **source),
            link_credit=credit,
            receive_settle_mode=0,
            **_link(port, authority, container_id),
        )
        self._client._message_received = lambda frame, message: self._arrived.append((frame, message))

    def next(self, outcome: str = "accepted", **arguments: Any) -> Any:
        """Return the next message, settled as given."""
        self._work_until(lambda: len(self._arrived) > 0, "a message")
        frame, received = self._arrived.popleft()
        self._client.settle_messages(frame[1], frame[2], outcome, **arguments)
        return received

    def _work_until(self, is_done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + ANSWER_S
        while not is_done():
            assert time.monotonic() < deadline, f"waited {ANSWER_S} s for {what}"
            self._client.do_work()

    def __enter__(self) -> Self:
        self._client.open()
        self._work_until(self._client.client_ready, "the link")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()
