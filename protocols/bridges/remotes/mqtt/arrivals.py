"""Messages of a foreign broker over either version of MQTT: their rules, and what becomes of those with none."""

from typing import Final, final

from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.topics.syntax import (
    Syntax,
    TopicError,
    TopicFilter,
    is_queue_topic,
    matches,
    parse_filter,
    parse_shared,
)
from sluicegate.protocols.bridges.remote import Arrival, Line
from sluicegate.protocols.bridges.remotes.mqtt.acknowledgements import Acknowledgements
from sluicegate.protocols.bridges.settings import BridgeSettings

QUEUE_ALONE: Final = (
    "messages of a queue have any topic, so over MQTT a bridge that reads one has no other incoming rule; "
    "allowed: a bridge of its own for it"
)


@final
class Arrivals:
    """Hands messages to the bridge, and has those acknowledged that go no further."""

    def __init__(self, settings: BridgeSettings, line: Line, acknowledgements: Acknowledgements) -> None:
        """Raises ValueError as `RuleFinder` does."""
        self._finder = RuleFinder(settings)
        self._line = line
        self._acknowledgements = acknowledgements
        self._last_number = 0

    def rule_of(self, topic: str, qos: int, packet_id: int) -> int:
        """Return the rule of a message that is no repetition; -1: it goes no further, and that is seen to."""
        rule = self._finder.rule(topic)
        if rule < 0:
            self._line.unmatched()
            if qos:
                self._acknowledgements.ignored(packet_id, qos)
        elif not qos and not self._line.has_room():
            self._line.dropped(rule)
            return -1
        return rule

    def add(
        self,
        rule: int,
        topic: str,
        payload: bytes,
        qos: int,
        packet_id: int,
        *,
        retain: bool,
        fault: str,
        headers: Headers | None = None,
    ) -> None:
        """Report a message that has a rule. It is acknowledged when the bridge settles it."""
        self._last_number += 1
        if qos:
            self._acknowledgements.add(self._last_number, packet_id, qos)
        self._line.arrived(
            Arrival(
                number=self._last_number,
                rule=rule,
                topic=topic,
                payload=payload,
                headers=headers,
                qos=qos,
                retain=retain,
                fault=fault,
            )
        )


class RuleFinder:
    """Finds the incoming rule of a topic: the first whose filter matches."""

    def __init__(self, settings: BridgeSettings) -> None:
        """Raises ValueError for an invalid filter, and a queue beside other sources: its messages have any topic."""
        sources = [each.source for each in settings.incoming]
        self._filters: list[TopicFilter] = []
        for rule in settings.incoming:
            try:
                self._filters.append(_filter_of(rule.source))
            except TopicError as error:
                raise ValueError(f"incoming rule {rule.name!r}: {error}") from None
        self._has_queue = any(is_queue_topic(each) for each in sources)
        if self._has_queue and len(sources) > 1:
            raise ValueError(f"{' and '.join(sources)}: {QUEUE_ALONE}")

    def rule(self, topic: str) -> int:
        """Return the index of the rule; -1: none, so it is of a subscription that an earlier configuration made."""
        if self._has_queue or (len(self._filters) == 1 and self._filters[0].is_everything()):
            return 0
        for index, topic_filter in enumerate(self._filters):
            if matches(topic_filter, topic):
                return index
        return -1


def _filter_of(source: str) -> TopicFilter:
    """Return the filter of a subscription, also of a shared one. Raises TopicError."""
    shared = parse_shared(source, Syntax.MQTT)
    return parse_filter(source, Syntax.MQTT) if shared is None else shared.filter
