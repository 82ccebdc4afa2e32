"""The will message, as a client left it in CONNECT. When it is published is the session's matter [3.1.2-8]."""

from typing import Final, final

from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.usage import text_bytes
from sluicegate.protocols.mqtt.codec.message_properties import MessageProperties

NO_EXPIRY: Final = -1


@final
class Will:
    """One will. Its QoS, RETAIN flag and properties are those of the PUBLISH it becomes."""

    def __init__(
        self, *, topic: str, payload: bytes, qos: int, retain: bool, delay_s: int, properties: MessageProperties | None
    ) -> None:
        self.topic = topic
        self.payload = payload
        self.qos = qos
        self.retain = retain
        self.delay_s = delay_s  # from the close to publishing; the session's end comes first if it is earlier
        self.expiry_s = NO_EXPIRY if properties is None else properties.expiry_s  # from publishing on
        self._properties = properties

    def usage_bytes(self) -> int:
        """Return what it counts for while it waits: what its message would, for it is one."""
        headers = self.headers(0)
        size = len(self.payload) + int(text_bytes(self.topic))
        return size if headers is None else size + int(headers.memory_bytes())

    def headers(self, wall_ms: int) -> Headers | None:
        """Return the headers of a will published now: its expiry starts with this moment."""
        return None if self._properties is None else self._properties.headers(wall_ms)

    def __repr__(self) -> str:
        return f"Will({self.topic!r}, {len(self.payload)} bytes, qos={self.qos}, delay_s={self.delay_s})"
