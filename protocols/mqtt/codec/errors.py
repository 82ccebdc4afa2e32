"""The two protocol errors of MQTT: the peer broke a rule, or the caller of the engine did."""

from typing import final


@final
class PeerViolation(Exception):
    """The client broke a rule, and its connection ends. Never raised out of `MqttEngine.feed`: it becomes an event.

    The code is one of 5.0; the engine maps it for 3.x clients, which get no code in most cases.
    """

    def __init__(self, reason_code: int, text: str) -> None:
        super().__init__(text)
        self.reason_code = reason_code
        self.text = text


@final
class LocalMisuse(Exception):
    """The caller asked the engine for something the standard forbids. A bug, not an input error."""
