"""Topic aliases on one connection, in both directions [MQTT 3.3.2.3.4]. They end with the connection."""

from random import Random

import support.mqtt.packets as mqtt

TOPIC_ALIAS, TOPIC_ALIAS_MAXIMUM = 0x23, 0x22


class AliasesOut:
    """Those that a client gives to the topics on which it publishes: `maximum` of them, 0: none."""

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._topics: dict[int, str] = {}  # by alias

    def name(self, topic: str, rng: Random) -> tuple[str, bytes]:
        """Return what a PUBLISH has for a topic: its name, empty where the alias says it, and the alias's property."""
        if not self._maximum:
            return topic, b""
        known = [alias for alias, its in self._topics.items() if its == topic]
        if known and rng.random() < 0.7:
            return "", mqtt.topic_alias(known[-1])
        alias = rng.randrange(self._maximum) + 1
        self._topics[alias] = topic  # which may have been another's until now
        return topic, mqtt.topic_alias(alias)


class AliasesIn:
    """Those that the node gives to topics."""

    def __init__(self) -> None:
        self._topics: dict[int, str] = {}  # by alias

    def resolve(self, publish: mqtt.Published) -> mqtt.Published:
        """Return a PUBLISH with its topic; empty if it has none, and an alias that was never set."""
        for alias in publish.values(TOPIC_ALIAS):
            assert isinstance(alias, int)
            self._topics[alias] = publish.topic or self._topics.get(alias, "")
            return publish._replace(topic=self._topics[alias])
        return publish
