"""What is interrupted in the middle, by Ctrl-C or pytest-timeout, leaves no answer behind for whoever asks next."""

import fcntl
import os
import signal
import socket
import struct
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from sluicegate.testing import Broker, BrokerFailed
from sluicegate.testing.running import process
from sluicegate.testing.running.process import BrokerProcess, Template
from support.mqtt.device import WITHIN_S
from support.processes.gateway import wait_until


class Interrupted(BaseException):
    """What a signal raises, wherever the test is."""


def waits_to_be_read(side: socket.socket) -> bool:
    """Return whether something was sent that the other side has not read yet."""
    [count] = struct.unpack("i", fcntl.ioctl(side, termios.TIOCOUTQ, bytes(4)))
    return int(count) > 0


@contextmanager
def interrupted_when(condition: Callable[[], bool]) -> Iterator[None]:
    """Have the block interrupted as soon as a condition holds."""

    def interrupt(number: int, frame: object) -> None:
        raise Interrupted

    def watch() -> None:
        wait_until(condition, within_s=WITHIN_S, what="the block waits for an answer")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    watching = threading.Thread(target=watch)
    watching.start()
    try:
        with pytest.raises(Interrupted):
            yield
    finally:
        watching.join()
        signal.signal(signal.SIGUSR1, before)


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Have a process neither answer nor end, unless it is killed."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def test_a_broker_whose_call_is_interrupted_is_killed() -> None:
    with Broker() as broker:
        broker.create_queue("orders")
        place = broker._place
        assert isinstance(place, BrokerProcess)
        with stopped(place.pid), interrupted_when(lambda: waits_to_be_read(place._socket)):
            broker.queues()
        with pytest.raises(BrokerFailed, match="its process has ended"):
            broker.metric("sluicegate_connections_opened_total")
        broker.crash()
        broker.start()
        assert broker.queues() == ["orders"]


def test_the_next_broker_has_a_new_template_when_a_start_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers of the old one go on, and end."""
    own = Template()
    monkeypatch.setattr(process, "_template", own)
    with Broker() as first:
        with stopped(own._process.pid), interrupted_when(lambda: waits_to_be_read(own._socket)):
            Broker().start()
        with Broker() as second:
            second.create_queue("orders")
            assert (first.queues(), second.queues()) == ([], ["orders"])
        assert process._template is not own
    assert not first.is_running
    assert process._template is not None
    process._template.end()
    own.end()
