"""What `sub` has printed counts as received, also where more is on its way as it ends."""

import socket
import threading

from typer.testing import CliRunner

from sluicegate.gateway.cli import app
from support.mqtt.packets import (
    CONNACK,
    CONNECT,
    DISCONNECT,
    PUBACK,
    SUBACK,
    SUBSCRIBE,
    UNSUBACK,
    UNSUBSCRIBE,
    Packet,
    packet,
    packet_id_of,
    publish,
    take_packets,
    u16,
)

PATIENCE_S = 30.0


class SlowGateway:
    """Sends three messages, and three more with the first acknowledgement; notes what it is told, in MQTT 3.1.1."""

    def __init__(self) -> None:
        self.heard: list[Packet] = []

    def serve(self, listening: socket.socket) -> None:
        """Serve one client until it has gone."""
        stream, _ = listening.accept()
        stream.settimeout(PATIENCE_S)
        rest = b""
        with stream:
            while data := stream.recv(65536):
                packets, rest = take_packets(rest + data)
                for each in packets:
                    stream.sendall(self._answer(each))
                    self.heard.append(each)

    def _answer(self, said: Packet) -> bytes:
        if said.kind == CONNECT:
            return packet(CONNACK << 4, bytes(2))
        if said.kind == SUBSCRIBE:
            granted = packet(SUBACK << 4, u16(packet_id_of(said)) + b"\x01")
            return granted + b"".join(publish("t", qos=1, packet_id=number) for number in (1, 2, 3))
        if said.kind == PUBACK and PUBACK not in [each.kind for each in self.heard]:
            return b"".join(publish("t", qos=1, packet_id=number) for number in (4, 5, 6))
        if said.kind == UNSUBSCRIBE:
            return packet(UNSUBACK << 4, u16(packet_id_of(said)))
        return b""


def test_printed_messages_are_acknowledged_to_a_gateway_that_still_sends() -> None:
    """Closed with deliveries unread, the socket would be reset, and the acknowledgements would be gone with it."""
    gateway = SlowGateway()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=gateway.serve, args=(listening,))
        serving.start()
        port = str(listening.getsockname()[1])
        ended = CliRunner().invoke(app, ["sub", "-t", "t", "-n", "2", "-V", "3.1.1", "-p", port])
        serving.join()
    assert (ended.exit_code, len(ended.stdout.splitlines())) == (0, 2), ended.stderr
    assert [each.kind for each in gateway.heard] == [CONNECT, SUBSCRIBE, PUBACK, PUBACK, UNSUBSCRIBE, DISCONNECT]
    assert [packet_id_of(each) for each in gateway.heard if each.kind == PUBACK] == [1, 2]
