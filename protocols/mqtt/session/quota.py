"""The session quota of a message VPN: what each MQTT session counts for, and whether there is room for more.

A session counts from the claim until its end: SESSION_BYTES, its client identifier for each copy kept, a delayed will,
and each packet id beyond the first of QoS 2 publishes that are not released, because each has a row. Subscriptions
have their own quota, over all protocols; messages count in their queues.
"""

from typing import Final, final

from sluicegate.messaging.clients.rights import SESSION_BYTES as DENIED_BYTES
from sluicegate.messaging.clients.rights import SESSION_COUNT as DENIED_COUNT
from sluicegate.messaging.clients.rights import UNRELEASED, ClientDenied
from sluicegate.messaging.clients.roster import ClientRoster
from sluicegate.messaging.message.usage import text_bytes
from sluicegate.protocols.mqtt.session.session import Session

SESSION_BYTES: Final = 1024  # measured: 490 in the directory, the rest for a connection or for its timers
RECEIVED_ID_BYTES: Final = 128  # of an almost empty row, beside the client identifier in its key
RECEIVED_FREE_BYTES: Final = 64 << 10  # of one session: some hundred ids, granted whatever the quota
NAME_COPIES: Final = 4  # of a client identifier: the session's, its queue's and subscriber's, and in keys of rows


@final
class SessionQuota:
    """The sessions of one message VPN. Invariant: both totals are the sums over all sessions that were counted."""

    def __init__(self, clients: ClientRoster) -> None:
        self._clients = clients
        self.kept_count = 0
        self.usage_bytes = 0

    def check(self, session: Session | None, client_id: str, *, is_kept: bool, will_bytes: int) -> None:
        """Raise ClientDenied, counted and told, unless a client may have its session so. `session`: it has one already.

        One that is kept, and takes no more than before, always may.
        """
        quota, vpn = self._clients.quota, self._clients.vpn
        if is_kept and not (session is not None and session.counts_as_kept) and not self._keeps_one_more():
            self._deny(DENIED_COUNT, client_id, f"message VPN {vpn!r} keeps the {quota.session_count_max} that it may")
        grows = _usage(client_id, will_bytes) - (0 if session is None else int(session.usage_bytes))
        if grows > 0 and not self._takes(grows):
            self._deny(DENIED_BYTES, client_id, f"those of message VPN {vpn!r} take the memory that they may")

    def takes_received(self, session: Session, count: int) -> bool:
        """Return whether a session may have so many more ids of messages received at QoS 2."""
        grows = _received_bytes(session, count) - session.received_bytes
        return grows <= 0 or self._takes(grows)

    def _keeps_one_more(self) -> bool:
        quota = self._clients.quota
        if self.kept_count >= quota.session_count_max:
            return False
        return quota.shared is None or quota.shared.sessions.admits(self.kept_count + 1, quota.session_count_max)

    def _takes(self, grows: int) -> bool:
        """Return whether sessions may take so many more bytes."""
        quota = self._clients.quota
        size = self.usage_bytes + grows
        if size > quota.session_bytes_max:
            return False
        return quota.shared is None or quota.shared.session_bytes.admits(size, quota.session_bytes_max)

    def deny_received(self, session: Session) -> str:
        """Count and report a denial; return the text for the client."""
        text = (
            f"503 Max Unreleased Messages Exceeded: {session.received_count} are not released, and the sessions of"
            f" message VPN {self._clients.vpn!r} take the memory that they may"
        )
        self._clients.denials.deny(UNRELEASED, session.client_id, text)
        return text

    def count_received(self, session: Session) -> None:
        """Count the ids that a session has now."""
        self._count_received(session, _received_bytes(session, 0))

    def _count_received(self, session: Session, size: int) -> None:
        self.usage_bytes += size - session.received_bytes
        session.count_received(size)

    def count(self, session: Session, will_bytes: int) -> None:
        """Count a session as it is now."""
        self._count(session, session.is_durable, _usage(session.client_id, will_bytes))
        self.count_received(session)

    def forget(self, session: Session) -> None:
        """Count a session no more."""
        self._count(session, False, 0)
        self._count_received(session, 0)

    def _count(self, session: Session, is_kept: bool, size: int) -> None:
        self.kept_count += is_kept - session.counts_as_kept
        self.usage_bytes += size - int(session.usage_bytes)
        session.counts_as_kept = is_kept
        session.usage_bytes = size

    def _deny(self, reason: str, client_id: str, text: str) -> None:
        text = f"503 Max Sessions Exceeded: {text}"
        self._clients.denials.deny(reason, client_id, text)
        raise ClientDenied(reason, text)


def _received_bytes(session: Session, more_count: int) -> int:
    """Return the quota usage of a session's ids, plus so many more. A session that is not kept has no rows."""
    if not session.is_durable:
        return 0
    size = (session.received_count + more_count) * (RECEIVED_ID_BYTES + int(text_bytes(session.client_id)))
    return max(0, size - RECEIVED_FREE_BYTES)


def _usage(client_id: str, will_bytes: int) -> int:
    return SESSION_BYTES + NAME_COPIES * int(text_bytes(client_id)) + will_bytes
