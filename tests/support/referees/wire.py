"""Referees of the wire: each sees every byte of one connection, and reports the first violation of the gateway.

A referee stands between the gateway's protocol and its transport. There the order of bytes read and written is certain:
the gateway can know everything that the client has sent by then. Only the gateway is judged: after a client has broken
a rule, its connection is judged no further.
"""

from collections.abc import Callable
from typing import Final

from sluicegate.protocols.transport.interface import ByteTransport, Connection, ConnectionFactory, PeerInfo, ReadTarget
from sluicegate.protocols.transport.listeners import Listener
from support.referees.amqp.connection import AmqpReferee
from support.referees.flow.connection import FlowProtocolReferee, Names
from support.referees.flow.consumer import SettleTimes
from support.referees.http import HttpReferee
from support.referees.mqtt.connection import MqttReferee
from support.referees.mqtt.deliveries import Sessions
from support.referees.violations import ClientViolation, Referee
from support.referees.websocket import WebSocketReferee

_NOT_TOLD: Final = SettleTimes()


def _referees(times: SettleTimes) -> dict[str, Callable[[], Referee]]:
    """Return what makes referees for one life of a gateway, by listener."""
    sessions, publishers = Sessions(), Names()
    return {
        "http": HttpReferee,
        "http_tls": HttpReferee,
        "amqp": AmqpReferee,
        "amqp_tls": AmqpReferee,
        "amqp_websocket": lambda: WebSocketReferee(AmqpReferee()),
        "amqp_websocket_tls": lambda: WebSocketReferee(AmqpReferee()),
        "flow": lambda: FlowProtocolReferee(publishers, times),
        "flow_tls": lambda: FlowProtocolReferee(publishers, times),
        "mqtt": lambda: MqttReferee(sessions),
        "mqtt_tls": lambda: MqttReferee(sessions),
        "mqtt_websocket": lambda: WebSocketReferee(MqttReferee(sessions)),
        "mqtt_websocket_tls": lambda: WebSocketReferee(MqttReferee(sessions)),
    }


def judged(found: list[str], listener: type[Listener] = Listener, times: SettleTimes = _NOT_TOLD) -> type[Listener]:
    """Return a kind of listener whose connections are judged; `found` gets the gateway's violations."""
    referees = _referees(times)

    class JudgedListener(listener):  # type: ignore[valid-type, misc]  # mypy takes no class from a variable
        def __init__(self, *, name: str, connect: ConnectionFactory, **options: object) -> None:
            referee = referees.get(name)
            judging = connect if referee is None else lambda: _JudgedConnection(connect(), referee(), found)
            super().__init__(name=name, connect=judging, **options)

    return JudgedListener


class _JudgedConnection:
    """A connection of the gateway's, and its transport, with the referee between them."""

    def __init__(self, connection: Connection, referee: Referee, violations: list[str]) -> None:
        self._connection = connection
        self._name = repr(connection)
        self._referee: Referee | None = referee
        self._wire_violations = violations
        self._transport: ByteTransport
        self._target: ReadTarget
        self._room: memoryview | None = None

    # What the stream tells: Connection.

    def opened(self, transport: ByteTransport, peer: PeerInfo) -> None:
        self._transport = transport
        self._connection.opened(self, peer)

    def received(self, data: bytes) -> None:
        if self._referee is not None:
            self._tell(self._referee.client_says, data)
        self._connection.received(data)

    def closed(self, error: Exception | None) -> None:
        connection = self._connection
        del self._connection  # which may know this for good: neither would be free without a collector
        connection.closed(error)

    def writing_paused(self) -> None:
        self._connection.writing_paused()

    def writing_resumed(self) -> None:
        self._connection.writing_resumed()

    # What the connection asks for: ByteTransport.

    def write(self, data: bytes) -> None:
        self._written(data)
        self._transport.write(data)

    def write_all(self, buffers: list[bytes]) -> None:
        for data in buffers:
            self._written(data)
        self._transport.write_all(buffers)

    def close(self) -> None:
        self._transport.close()

    def close_after_flush(self) -> None:
        self._transport.close_after_flush()

    def abort(self) -> None:
        self._transport.abort()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def read_into(self, target: ReadTarget) -> None:
        self._target = target
        self._transport.read_into(self)

    def buffered_bytes(self) -> int:
        return self._transport.buffered_bytes()

    def direct(self) -> ByteTransport:
        return self._transport.direct()

    def hand_over(self, connection: Connection) -> None:
        self._connection = connection

    # What the stream asks for while something large comes: ReadTarget.

    def buffer(self) -> memoryview | None:
        self._room = self._target.buffer()
        return self._room

    def filled(self, count: int) -> None:
        if self._referee is not None and self._room is not None:
            self._tell(self._referee.client_says, bytes(self._room[:count]))
        self._target.filled(count)

    # Judging.

    def _written(self, data: bytes) -> None:
        if self._referee is not None:
            self._tell(self._referee.gateway_says, data)

    def _tell(self, hears: Callable[[bytes], None], data: bytes) -> None:
        try:
            hears(data)
        except ClientViolation:
            self._referee = None
        except Exception as violation:  # a referee that stumbles is to fail the test, and not to disturb the connection
            self._wire_violations.append(f"{violation!r}, on {self._name}")
            self._referee = None
