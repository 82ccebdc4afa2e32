"""The two protocol errors of MQTT: the peer broke a rule, or the caller of the engine did."""

from typing import final


@final
class PeerViolation(Exception):
    """The client broke a rule, and its connection ends. Never raised out of `MqttEngine.feed`: it becomes an event.

    The code is one of 5.0; what a 3.x client gets to see of it, if anything, the engine decides.
    """

    def __init__(self, reason_code: int, text: str) -> None:
        super().__init__(text)
        self.reason_code = reason_code
        self.text = text


@final
class LocalMisuse(Exception):
    """Our own code asked the engine for something that the standard forbids. A bug, not an input error."""
