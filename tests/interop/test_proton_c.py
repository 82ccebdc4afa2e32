"""Apache Qpid Proton for C: the example programs of its Debian package, compiled as they are."""

import subprocess
from pathlib import Path
from uuid import uuid4

import pytest

from support.processes.foreign_programs import program, source
from support.processes.gateway import GatewayProcess

pytestmark = [pytest.mark.interop]

EXAMPLES = "/usr/share/proton/examples/c"
LIBRARIES = ("-lqpid-proton", "-lpthread")
ANSWER_S = 20


class Programs:
    """The examples, compiled when they are first wanted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def run(self, name: str, port: int, *arguments: str) -> str:
        """Run one to its end, and return what it printed."""
        command = [str(self._compiled(name)), "127.0.0.1", str(port), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_S)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def _compiled(self, name: str) -> Path:
        made = self._folder / name
        if not made.exists():
            command = [program("gcc"), "-o", str(made), str(source(f"{EXAMPLES}/{name}.c")), *LIBRARIES]
            done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_S)
            assert done.returncode == 0, done.stderr
        return made


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return Programs(tmp_path_factory.mktemp("proton-c"))


@pytest.fixture
def queue(node: GatewayProcess) -> str:
    """A queue of this test alone."""
    name = f"q-{uuid4().hex[:12]}"
    node.create_queue(name)
    return name


def numbers(first: int, last: int) -> list[str]:
    return [f'{{"sequence"={number}}}' for number in range(first, last + 1)]


def test_messages_sent_over_tls_are_received_in_order(node: GatewayProcess, programs: Programs, queue: str) -> None:
    """3.2: maps with an integer each, 500 of them, with credit for all and settled one by one."""
    sent = programs.run("send-ssl", node.amqps_port, queue, "500")
    assert "500 messages sent and acknowledged" in sent
    lines = programs.run("receive", node.amqp_port, queue, "500").splitlines()
    assert lines == [*numbers(1, 500), "500 messages received"]


def test_an_aborted_delivery_is_as_if_it_had_not_been(node: GatewayProcess, programs: Programs, queue: str) -> None:
    """2.7.5, case 55: messages that are begun and taken back leave nothing, and the next are whole."""
    assert "10 messages started and aborted" in programs.run("send-abort", node.amqp_port, queue, "10")
    assert node.held_count(queue) == 0
    programs.run("send", node.amqp_port, queue, "3")
    lines = programs.run("receive", node.amqp_port, queue, "3").splitlines()
    assert lines == [*numbers(1, 3), "3 messages received"]
