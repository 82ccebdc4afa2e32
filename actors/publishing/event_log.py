"""The event log: writes events to the log and publishes them as direct messages to subscribers."""

import logging
from collections.abc import Callable
from random import Random
from typing import Any, Final

from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.observability.events import AUDITED, CLIENT, ERROR, INFO, NOBODY, NOTICE, VPN, WARNING, Event
from sluicegate.messaging.routing.routes import TopicSpace

log = logging.getLogger("sluicegate.events")

audit = logging.getLogger("sluicegate.audit")  # has a file of its own, or none

LOG_LEVELS: Final = {INFO: logging.INFO, NOTICE: logging.INFO, WARNING: logging.WARNING, ERROR: logging.ERROR}


class EventLog(LoopActor):
    """Writes each event to the log, and publishes it as a direct message to subscribers.

    An event is published in the message VPN that it concerns, and an event of the node in `default`.
    """

    def __init__(
        self,
        cell: ActorCell,
        *,
        space_of: Callable[[str], TopicSpace | None],
        spool: Address,
        router_name: str,
        rng: Random,
        prefixes: tuple[str, ...],
        scopes: tuple[str, ...],
    ) -> None:
        super().__init__(cell)
        self.router_name = router_name
        self.prefixes = prefixes  # SMF_PREFIX, MQTT_PREFIX, both or none
        self.scopes = scopes  # whose events are published
        self._space_of = space_of  # returns the topic space of a VPN by name, None for one that was deleted
        self._spool = spool
        self._rng = rng
        self._publishers: dict[str, tuple[TopicSpace, Publisher]] = {}  # by VPN

    def on_receive(self, event: Any) -> None:
        """Log and publish one event."""
        assert isinstance(event, Event)
        values = {"event": event.kind.name}
        if event.kind.scope in (VPN, CLIENT):
            values["vpn"] = event.vpn
        if event.kind.scope == CLIENT:
            values["client"] = event.client
        if event.details is not None:
            values |= event.details
        if event.kind in AUDITED:
            audit.info("%s", event.description, extra=values)
        if event.kind.audit_only:
            return
        log.log(LOG_LEVELS[event.kind.level], "%s", event.text(), extra=values)
        if event.kind.scope in self.scopes:
            vpn = DEFAULT_VPN if event.vpn == NOBODY else event.vpn
            space = self._space_of(vpn)
            if space is None:
                self._publishers.pop(vpn, None)
                return
            for prefix in self.prefixes:
                topic = event.topic(prefix, self.router_name)
                if not space.route(topic).is_empty:
                    self._publish(event, topic, vpn, space)

    def _publish(self, event: Event, topic: str, vpn: str, space: TopicSpace) -> None:
        payload = event.text().encode(errors="replace")
        batch = MessageBatch(
            topic=topic,
            topics=None,
            payloads=[payload],
            headers=None,
            qos=AT_MOST_ONCE,
            retain=False,
            publisher="",
            received_ms=event.wall_ms,
            payload_bytes=len(payload),
        )
        known = self._publishers.get(vpn)
        if known is None or known[0] is not space:  # another VPN of its name was deleted meanwhile
            made = Publisher(space=space, spool=self._spool, address=self.cell.inbox, rng=self._rng)
            known = self._publishers[vpn] = (space, made)
        publisher = known[1]
        publisher.publish(batch, 0)
        publisher.pressures.clear()  # events do not wait: a slow subscriber loses them, counted as any drop
