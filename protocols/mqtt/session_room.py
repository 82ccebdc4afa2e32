"""How many MQTT sessions a message VPN may have, and how large: what each counts for, and whether there is room.

A session counts from when a client claims it until it ends: SESSION_BYTES, its client identifier as often as it is
kept, and the will that waits for its client to go. Subscriptions count by themselves, for all protocols; messages count
where they are, in queues.
"""

from typing import Final, final

from messaging.client_rights import SESSION_BYTES as DENIED_BYTES
from messaging.client_rights import SESSION_COUNT as DENIED_COUNT
from messaging.client_rights import ClientDenied
from messaging.client_roster import ClientRoster
from messaging.usage import text_bytes
from protocols.mqtt.session_entry import Entry

SESSION_BYTES: Final = 1024  # measured: 490 in the directory, and what a connection or its absence adds
NAME_COPIES: Final = 4  # of a client identifier: the session's, its queue's and subscriber's, and in keys of rows


@final
class SessionRoom:
    """The sessions of one message VPN. Invariant: both totals are the sums over all entries that were counted."""

    def __init__(self, clients: ClientRoster) -> None:
        self._clients = clients
        self.kept_count = 0
        self.usage_bytes = 0

    def check(self, entry: Entry | None, client_id: str, *, is_kept: bool, will_bytes: int) -> None:
        """Raise ClientDenied, counted and told, unless a client may have its session so. `entry`: it has one already.

        One that is kept, and takes no more than before, always may.
        """
        quota, vpn = self._clients.quota, self._clients.vpn
        if is_kept and not (entry is not None and entry.counts_as_kept) and self.kept_count >= quota.session_count_max:
            self._deny(DENIED_COUNT, client_id, f"message VPN {vpn!r} keeps the {self.kept_count} that it may")
        grows = _usage(client_id, will_bytes) - (0 if entry is None else entry.usage_bytes)
        if grows > 0 and self.usage_bytes + grows > quota.session_bytes_max:
            self._deny(DENIED_BYTES, client_id, f"those of message VPN {vpn!r} take the memory that they may")

    def count(self, entry: Entry, will_bytes: int) -> None:
        """Count a session as it is now."""
        self._count(entry, entry.session.is_durable, _usage(entry.session.client_id, will_bytes))

    def forget(self, entry: Entry) -> None:
        """Count a session no more."""
        self._count(entry, False, 0)

    def _count(self, entry: Entry, is_kept: bool, size: int) -> None:
        self.kept_count += is_kept - entry.counts_as_kept
        self.usage_bytes += size - entry.usage_bytes
        entry.counts_as_kept, entry.usage_bytes = is_kept, size

    def _deny(self, reason: str, client_id: str, text: str) -> None:
        text = f"503 Max Sessions Exceeded: {text}"
        self._clients.denials.deny(reason, client_id, text)
        raise ClientDenied(reason, text)


def _usage(client_id: str, will_bytes: int) -> int:
    return SESSION_BYTES + NAME_COPIES * int(text_bytes(client_id)) + will_bytes
