"""Ports of brokers under test: each worker of pytest-xdist has its own, and gives each of them out in turn."""

import socket

import pytest

from sluicegate.testing import ports
from sluicegate.testing.ports import LOOPBACK, PORTS, free_port, worker_number


@pytest.mark.parametrize(("worker", "number"), [("gw0", 0), ("gw12", 12), ("local1", 1), ("rack-2-gw07", 7)])
def test_a_worker_has_the_number_at_the_end_of_its_name(worker: str, number: int) -> None:
    """Names are what users give to workers, `--tx id=local1//popen`."""
    assert worker_number(worker) == number


def test_workers_without_numbers_differ() -> None:
    assert worker_number("left") != worker_number("right")


def test_a_port_comes_back_when_all_others_were_given() -> None:
    given_at: dict[int, int] = {}
    for turn in range(3 * len(PORTS)):
        port = free_port()
        assert port in PORTS
        assert turn - given_at.get(port, -len(PORTS)) > len(PORTS) // 2  # programs listen on some of the others
        given_at[port] = turn


def test_a_port_on_which_a_program_listens_is_left_out() -> None:
    with socket.create_server((LOOPBACK, free_port())) as program:
        taken = program.getsockname()[1]
        assert taken not in {free_port() for _ in PORTS}
    assert taken in {free_port() for _ in PORTS}


def test_that_no_port_is_free_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((LOOPBACK, free_port())) as program:
        port = program.getsockname()[1]
        monkeypatch.setattr(ports, "PORTS", range(port, port + 1))
        monkeypatch.setattr(ports, "_next_ports", iter([port]))
        with pytest.raises(OSError, match=f"none of 1 ports from {port} to {port} is free"):
            free_port()
