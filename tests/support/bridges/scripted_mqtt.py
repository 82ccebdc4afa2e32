"""A foreign broker that speaks MQTT, whose every packet is the test's."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, Self

from support.mqtt.packets import Packet, Published, packet, packet_id_of, published, take_packets, u16
from support.network.small_buffers import buffer_little

ANSWER_S: Final = 20
CONNECT, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBSCRIBE, UNSUBSCRIBE = 1, 3, 4, 5, 6, 7, 8, 10
PINGREQ, DISCONNECT = 12, 14


def connack(*, session_present: bool = False, reason: int = 0, level: int = 5, properties: bytes = b"") -> bytes:
    """A CONNACK."""
    section = bytes([len(properties)]) + properties if level == 5 else b""
    return packet(0x20, bytes([session_present, reason]) + section)


class Connection:
    """The broker's end of one connection."""

    def __init__(self, peer: socket.socket, level: int) -> None:
        self._peer = peer
        self._level = level
        self._input = b""
        self._packets: list[Packet] = []
        peer.settimeout(ANSWER_S)

    def packet(self) -> Packet:
        """Return the next packet that is no PINGREQ; that is answered."""
        while True:
            while not self._packets:
                data = self._peer.recv(65_536)
                assert data, "the bridge has closed the connection"
                self._packets, self._input = take_packets(self._input + data)
            found = self._packets.pop(0)
            if found.kind != PINGREQ:
                return found
            self.send(b"\xd0\x00")

    def pinged(self) -> None:
        """Wait for a PINGREQ, and answer it."""
        while not self._packets:
            data = self._peer.recv(65_536)
            assert data, "the bridge has closed the connection"
            self._packets, self._input = take_packets(self._input + data)
        assert self._packets.pop(0).kind == PINGREQ
        self.send(b"\xd0\x00")

    def gets(self, kind: int, count: int = 1) -> list[int]:
        """Wait for so many packets of a kind, and nothing else; return their packet ids."""
        got = [self.packet() for _ in range(count)]
        assert [each.kind for each in got] == [kind] * count, got
        return [packet_id_of(each) for each in got]

    def grants(self, *codes: int) -> Packet:
        """Answer the next packet, a SUBSCRIBE, and return it."""
        asked = self.packet()
        assert asked.kind == SUBSCRIBE, asked
        self.send(packet(0x90, u16(packet_id_of(asked)) + (b"\x00" if self._level == 5 else b"") + bytes(codes)))
        return asked

    def lets_go(self, *codes: int) -> list[str]:
        """Answer the next packet, an UNSUBSCRIBE, and return its filters. `codes` are those of MQTT 5."""
        asked = self.packet()
        assert asked.kind == UNSUBSCRIBE, asked
        pos = 2 + (1 if self._level == 5 else 0)
        filters: list[str] = []
        while pos < len(asked.body):
            end = pos + 2 + int.from_bytes(asked.body[pos : pos + 2], "big")
            filters.append(asked.body[pos + 2 : end].decode())
            pos = end
        section = b"\x00" + bytes(codes or len(filters)) if self._level == 5 else b""
        self.send(packet(0xB0, u16(packet_id_of(asked)) + section))
        return filters

    def published(self) -> Published:
        """Return the next packet, a PUBLISH."""
        return published(self.packet(), self._level)

    def send(self, *packets: bytes) -> None:
        self._peer.sendall(b"".join(packets))

    def sends_until_it_breaks(self, packet: bytes) -> None:
        """Send a packet again and again, at whatever pace it is taken, until the bridge has closed the connection."""
        data, sent = memoryview(packet * 16_384), 0
        with suppress(BrokenPipeError, ConnectionResetError):
            while True:
                with suppress(TimeoutError):
                    sent = (sent + self._peer.send(data[sent:])) % len(data)

    def takes_little(self) -> None:
        """Have the system keep no more than a few packets that the test does not ask for."""
        buffer_little(self._peer)

    def ends(self) -> None:
        """Wait until the bridge has closed the connection."""
        while self._peer.recv(65_536):
            pass

    def close(self) -> None:
        """Cut the connection."""
        self._peer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ScriptedBroker:
    """Listens, and accepts connections when the test says so."""

    def __init__(self, listener: socket.socket, level: int) -> None:
        self._listener = listener
        self._level = level
        self.port: int = listener.getsockname()[1]
        self.connect = Packet(0, b"")  # the last one

    @contextmanager
    def connects(self) -> Iterator[Connection]:
        """Take the next connection and its CONNECT, and do not answer."""
        peer, _ = self._listener.accept()
        with Connection(peer, self._level) as connection:
            asked = connection.packet()
            assert asked.kind == CONNECT, asked
            self.connect = asked
            yield connection

    @contextmanager
    def accepts(
        self, *, session_present: bool = False, reason: int = 0, properties: bytes = b""
    ) -> Iterator[Connection]:
        """Take the next connection, and answer its CONNECT."""
        with self.connects() as connection:
            connection.send(
                connack(session_present=session_present, reason=reason, level=self._level, properties=properties)
            )
            yield connection


@contextmanager
def scripted(level: int = 5) -> Iterator[ScriptedBroker]:
    """Yield a broker that listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(ANSWER_S)
        yield ScriptedBroker(listener, level)
