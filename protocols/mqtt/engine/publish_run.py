"""Rows of a batch that one client gets with the same options.

Packet ids and settlement are elsewhere: ids are allocated once it is known that the rows are sent.
"""

from typing import final

from mypy_extensions import i64, mypyc_attr

from sluicegate.actors.runtime.clock import Clock
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.publication import Publication
from sluicegate.protocols.mqtt.session.subscriptions import DeliveryOptions


@final
@mypyc_attr(free_list_len=1)
class PublishRun:
    """Rows `[start, stop)` of a batch that one client gets alike."""

    __slots__ = ("batch", "options", "properties", "publication", "qos", "redelivered", "start", "stop", "wall_ms")

    def __init__(
        self,
        batch: MessageBatch,
        start: i64,
        stop: i64,
        qos: i64,
        options: DeliveryOptions,
        properties: list[tuple[str, str]] | None,
        wall_ms: i64,
        publication: Publication | None,
        redelivered: bool = False,
    ) -> None:
        self.batch = batch
        self.start = start
        self.stop = stop
        self.qos = qos  # they are sent at, whatever the options grant
        self.options = options
        self.properties = properties  # user properties of ours, behind the publisher's own
        self.wall_ms = wall_ms  # now, for the seconds that are left of an expiry; 0 when nothing expires
        self.publication = (
            publication  # the publication that stores the rows; None: direct, retained, or stored long ago
        )
        self.redelivered = redelivered  # they left their queue before, or may have

    def part(self, start: i64, stop: i64) -> "PublishRun":
        """Return some of these rows, to go out in the same way."""
        publication, redelivered = self.publication, self.redelivered
        return PublishRun(
            self.batch, start, stop, self.qos, self.options, self.properties, self.wall_ms, publication, redelivered
        )

    def retains(self) -> bool:
        """Return whether they go out with RETAIN set."""
        return self.batch.retain and self.options.retain_as_published


def wall_ms_for(batch: MessageBatch, clock: Clock) -> int:
    """Return what time it is; 0 where nothing expires, which needs headers."""
    return 0 if batch.headers() is None else clock.wall_ms()
