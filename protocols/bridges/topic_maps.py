"""How the topic of a message changes on its way over a bridge: prefixes are stripped and added, separators translated.

A map has a direction. What it strips is written in the syntax of the side that a message comes from, and what it adds
in that of the side it goes to. A topic that does not begin with the prefix to strip has no image.

Separators: topics here, MQTT's and SMF's, have levels separated by `/`; dotted ones (JMS, ActiveMQ, NATS, RabbitMQ's
topic exchanges) by `.`. A translation swaps the two characters, so that different topics stay different, and the way
back gives the same topic.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final


class TopicSyntax(Enum):
    """How the foreign broker separates the levels of a topic."""

    SLASHES = "slashes"
    DOTTED = "dotted"


_SWAPPED: Final = str.maketrans({"/": ".", ".": "/"})


@dataclass(frozen=True, slots=True)
class TopicMap:
    """A map of topics, for one direction."""

    strip: str = ""
    add: str = ""
    syntax: TopicSyntax = TopicSyntax.SLASHES  # of the foreign broker

    def image(self, topic: str) -> str | None:
        """Return the topic on the other side; None if there is none: it lacks the prefix, or nothing would be left."""
        if not topic.startswith(self.strip):
            return None
        rest = topic[len(self.strip) :]
        if self.syntax is TopicSyntax.DOTTED:
            rest = rest.translate(_SWAPPED)
        return (self.add + rest) or None

    def reversed(self) -> "TopicMap":
        """Return the map of the other direction: it takes each image back to its topic."""
        return TopicMap(self.add, self.strip, self.syntax)

    def __str__(self) -> str:
        return f"{self.strip}* -> {self.add}*"
