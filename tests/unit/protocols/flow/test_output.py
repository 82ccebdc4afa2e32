"""What a client of the flow protocol is answered while it is behind."""

import pytest

from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.protocols.connection.counters import ProtocolCounters, Traffic
from sluicegate.protocols.connection.write_control import UNREAD_RESPONSES_BYTES_MAX
from sluicegate.protocols.flow.datapath.output import Output
from support.cores.lone_actors import Idle, spawned
from support.flow.engine_pair import open_gateway
from support.network.full_socket import FullSocket

ANSWER = bytes(UNREAD_RESPONSES_BYTES_MAX // 16)


class CountingSocket(FullSocket):
    """A socket that takes so many bytes of each write, and holds the rest."""

    def __init__(self) -> None:
        self.takes_bytes = 0
        self.held_bytes = 100_000
        self.writes_count = 0

    def write(self, data: bytes) -> None:
        self.writes_count += 1
        self.held_bytes += len(data) - self.takes_bytes

    def buffered_bytes(self) -> int:
        return self.held_bytes


class Client:
    """A client behind a full socket, and how often it was given up."""

    def __init__(self, runtime: Runtime) -> None:
        self.socket = CountingSocket()
        self.given_up_count = 0
        self.output = Output(
            spawned(runtime, Idle),
            open_gateway(),
            ProtocolCounters(),
            Traffic(),
            gather=lambda: None,
            give_up=self._give_up,
        )
        self.output.transport = self.socket
        self.output.paused()

    def _give_up(self) -> None:
        self.given_up_count += 1

    def is_answered(self, times: int) -> None:
        """Have so many turns with an answer each."""
        for _ in range(times):
            self.output.send(ANSWER)
            self.output.flush()


@pytest.fixture
def client(runtime: Runtime) -> Client:
    """Return a client of a gateway with nobody else in it."""
    return Client(runtime)


def test_a_client_that_is_behind_and_reads_on_is_left_alone(client: Client) -> None:
    client.socket.takes_bytes = len(ANSWER)
    client.is_answered(1000)
    assert client.given_up_count == 0
    assert client.socket.writes_count == 1000


def test_a_client_that_takes_nothing_is_given_up_once_and_is_written_nothing_more(client: Client) -> None:
    client.is_answered(15)
    assert client.given_up_count == 0
    client.is_answered(10)
    assert client.given_up_count == 1
    assert client.socket.writes_count == 16


def test_answers_before_the_socket_was_full_no_longer_count(client: Client) -> None:
    client.is_answered(15)
    client.output.resumed()
    client.output.paused()
    client.is_answered(15)
    assert client.given_up_count == 0
