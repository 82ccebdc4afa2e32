"""Audit denials: what a client was denied becomes an event, and so a line of the audit log.

`messaging.clients.rights` counts denials; `actors.publishing.event_log` decides which events are written where.
"""

from typing import Final

from sluicegate.actors.runtime.events import Events
from sluicegate.messaging.clients import rights
from sluicegate.messaging.clients.roster import ClientRoster
from sluicegate.messaging.observability.events import (
    CLIENT_BIND_FAILED,
    CLIENT_CONNECT_FAILED,
    CLIENT_PERMISSION_DENIED,
    CLIENT_PUBLISH_DENIED,
    CLIENT_SUBSCRIBE_DENIED,
    NOBODY,
    EventKind,
)

KINDS: Final[dict[str, EventKind]] = {
    rights.NOT_AUTHENTICATED: CLIENT_CONNECT_FAILED,
    rights.FOREIGN_ORIGIN: CLIENT_CONNECT_FAILED,
    rights.FOREIGN_HOST: CLIENT_CONNECT_FAILED,
    rights.VPN_UNKNOWN: CLIENT_CONNECT_FAILED,
    rights.VPN_DOWN: CLIENT_CONNECT_FAILED,
    rights.CONNECT_ACL: CLIENT_CONNECT_FAILED,
    rights.USERNAME_SHUT_DOWN: CLIENT_CONNECT_FAILED,
    rights.TOO_MANY_CONNECTIONS: CLIENT_CONNECT_FAILED,
    rights.SESSION_OF_ANOTHER: CLIENT_CONNECT_FAILED,
    rights.SESSION_COUNT: CLIENT_CONNECT_FAILED,
    rights.SESSION_BYTES: CLIENT_CONNECT_FAILED,
    rights.UNRELEASED: CLIENT_PUBLISH_DENIED,
    rights.PUBLISH_ACL: CLIENT_PUBLISH_DENIED,
    rights.GUARANTEED_SEND: CLIENT_PUBLISH_DENIED,
    rights.SUBSCRIBE_ACL: CLIENT_SUBSCRIBE_DENIED,
    rights.SHARE_NAME_ACL: CLIENT_SUBSCRIBE_DENIED,
    rights.SHARED_SUBSCRIPTIONS: CLIENT_SUBSCRIBE_DENIED,
    rights.SUBSCRIPTION_COUNT: CLIENT_SUBSCRIBE_DENIED,
    rights.GUARANTEED_RECEIVE: CLIENT_BIND_FAILED,
    rights.EGRESS_FLOWS: CLIENT_BIND_FAILED,
    rights.PUBLISHER_OF_ANOTHER: CLIENT_PERMISSION_DENIED,
    rights.TRANSACTION_OF_ANOTHER: CLIENT_PERMISSION_DENIED,
    rights.INGRESS_FLOWS: CLIENT_PERMISSION_DENIED,
    rights.ENDPOINT_CREATE: CLIENT_PERMISSION_DENIED,
    rights.ENDPOINT_COUNT: CLIENT_PERMISSION_DENIED,
    rights.TRANSACTIONS: CLIENT_PERMISSION_DENIED,
}


def report_denials(roster: ClientRoster, events: Events) -> None:
    """Emit an event for every denial from now on."""

    def report(reason: str, client: str, text: str) -> None:
        events.emit(KINDS[reason], text, client=client or NOBODY)

    roster.denials.listener = report
