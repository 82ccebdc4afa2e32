"""The owner of a temporary queue: the connection that created it (Solace 4.11, JMS 6.2.2). No other one consumes."""

from typing import final

from sluicegate.actors.messages.queues import NOT_OWNER, OWNER_CONNECTED
from sluicegate.messaging.clients.rights import ClientRights


@final
class TemporaryOwner:
    """The connection that a temporary queue belongs to: no other may consume, browse or read it.

    When the connection has ended, another one of the same client (name and user) takes its place by binding: the client
    has connected again within the grace time. Publishing is not affected.
    """

    def __init__(self, rights: ClientRights) -> None:
        self._rights = rights  # one object for each connection

    def refusal(self, queue: str, rights: ClientRights | None) -> tuple[str, str]:
        """Return why a connection may not have the queue, as a code and a text; both are empty when it may.

        None: a consumer that is not a client, such as a REST delivery point.
        """
        own = self._rights
        if rights is own:
            return "", ""
        if rights is None or (rights.client, rights.username) != (own.client, own.username):
            return NOT_OWNER, f"403 Permission Denied: temporary queue {queue!r} belongs to client {own.client!r}"
        if own.is_connected:
            text = f"temporary queue {queue!r} belongs to another connection of client {own.client!r}"
            return OWNER_CONNECTED, f"403 Permission Denied: {text}"
        return "", ""

    def take_over(self, rights: ClientRights | None) -> None:
        """Make a connection the owner, for which there is no refusal."""
        if rights is not None:
            self._rights = rights
