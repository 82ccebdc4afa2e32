"""What goes wrong in a round. Each failure begins, lasts for a while under load, and is over."""

import os
import random
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeAlias

from rounds.load import Load
from rounds.machines import ASK_S, Machine, Machines
from support.http.plain import HTTP
from support.processes.foreign_programs import library
from support.processes.nats import NatsServer

PAUSE_S: Final = 60.0
CUT_S: Final = 15.0
AWAY_S: Final = 8.0
CLOCK_AHEAD: Final = "+5h"

Failing: TypeAlias = Callable[[Machines, Load, random.Random], None]


def kill_owner(machines: Machines, load: Load, draw: random.Random) -> None:
    """The owner is killed; it starts again when another one serves."""
    owner = machines.owner()
    owner.kill9()
    load.until_served(20)
    owner.start()


def pause_owner(machines: Machines, load: Load, draw: random.Random) -> None:
    """The owner is paused for a minute, and goes on beside the new one."""
    owner = machines.owner()
    owner.send_signal(signal.SIGSTOP)
    load.run_for(PAUSE_S)
    owner.send_signal(signal.SIGCONT)


def cut_owner(machines: Machines, load: Load, draw: random.Random) -> None:
    """The owner is cut off from everything; its NATS server is not."""
    machines.network.cut(machines.owner().name)
    load.run_for(CUT_S)
    machines.network.heal()


def cut_owner_from_servers(machines: Machines, load: Load, draw: random.Random) -> None:
    """The owner is cut off from the NATS servers, and its clients reach it."""
    machines.network.cut_from_servers(machines.owner().name)
    load.run_for(CUT_S)
    machines.network.heal()


def cut_leader(machines: Machines, load: Load, draw: random.Random) -> None:
    """The NATS server that leads the stream is cut off."""
    machines.network.cut(machines.leader().name)
    load.run_for(CUT_S)
    machines.network.heal()


def cut_owner_and_leader(machines: Machines, load: Load, draw: random.Random) -> None:
    """The owner and the server that leads the stream are cut off: so it is when their machine is."""
    machines.network.cut(machines.leader().name)
    machines.network.cut(machines.owner().name)
    load.run_for(CUT_S)
    machines.network.heal()


def kill_server(machines: Machines, load: Load, draw: random.Random) -> None:
    """One NATS server is killed, and comes back."""
    _without(_some(machines, draw, 1), load)


def kill_majority(machines: Machines, load: Load, draw: random.Random) -> None:
    """Two NATS servers are killed, and come back."""
    _without(_some(machines, draw, 2), load)


def kill_all_servers(machines: Machines, load: Load, draw: random.Random) -> None:
    """All NATS servers are killed, and come back."""
    _without(machines.servers, load)


def pause_majority(machines: Machines, load: Load, draw: random.Random) -> None:
    """Two NATS servers stand still, and go on."""
    servers = _some(machines, draw, 2)
    for server in servers:
        server.pause()
    load.run_for(draw.uniform(1.0, AWAY_S))
    for server in servers:
        server.resume()


def fill_disk_of_owner(machines: Machines, load: Load, draw: random.Random) -> None:
    """The disk of the owner is full for a while."""
    owner = machines.owner()
    machines.fill_disk(owner)
    try:
        load.run_for(CUT_S)
    finally:
        machines.clear_disk(owner)


def wrong_clock(machines: Machines, load: Load, draw: random.Random) -> None:
    """A standby whose clock is hours ahead becomes the owner, and gives the broker back."""
    successor = draw.choice(machines.standbys())
    successor.stop()
    with _wrong_clock():
        successor.start()
    machines.until_whole()
    _hand_over(machines, successor)
    load.until_served(20)
    successor.stop()
    load.until_served(20)
    successor.start()


def hand_over(machines: Machines, load: Load, draw: random.Random) -> None:
    """An operator has a standby take over."""
    _hand_over(machines, draw.choice(machines.standbys()))
    load.until_served(20)


def stop_owner(machines: Machines, load: Load, draw: random.Random) -> None:
    """The owner is told to stop, and starts again."""
    owner = machines.owner()
    owner.stop()
    load.until_served(20)
    owner.start()


def kill_owner_and_standby(machines: Machines, load: Load, draw: random.Random) -> None:
    """The owner and a standby are killed; they start again when the other one serves."""
    killed = [machines.owner(), draw.choice(machines.standbys())]
    for each in killed:
        each.kill9()
    load.until_served(20)
    for each in killed:
        each.start()


class Failure(NamedTuple):
    """A failure, and where it can be brought about."""

    name: str
    fail: Failing
    needs_cut_servers: bool = False
    needs_root: bool = False


FAILURES: Final = (
    Failure("kill owner", kill_owner),
    Failure("kill owner and standby", kill_owner_and_standby),
    Failure("pause owner", pause_owner),
    Failure("cut owner", cut_owner),
    Failure("cut owner from servers", cut_owner_from_servers),
    Failure("cut leader", cut_leader, needs_cut_servers=True),
    Failure("cut owner and leader", cut_owner_and_leader, needs_cut_servers=True),
    Failure("kill server", kill_server),
    Failure("kill majority", kill_majority),
    Failure("kill all servers", kill_all_servers),
    Failure("pause majority", pause_majority),
    Failure("fill disk of owner", fill_disk_of_owner, needs_root=True),
    Failure("wrong clock", wrong_clock),
    Failure("hand over", hand_over),
    Failure("stop owner", stop_owner),
)


def possible(*, cuts_servers: bool) -> list[Failure]:
    """Return the failures that can be brought about here."""
    is_root = os.geteuid() == 0
    return [
        each for each in FAILURES if (cuts_servers or not each.needs_cut_servers) and (is_root or not each.needs_root)
    ]


def _some(machines: Machines, draw: random.Random, count: int) -> Sequence[NatsServer]:
    return draw.sample(machines.servers, count)


def _without(servers: Sequence[NatsServer], load: Load) -> None:
    for server in servers:
        server.kill()
    load.run_for(AWAY_S)
    for server in servers:
        server.start()


def _hand_over(machines: Machines, successor: Machine) -> None:
    url = f"{machines.owner().admin_url}/cluster/handover"
    HTTP.post(url, params={"to": successor.name}, timeout=ASK_S).raise_for_status()


@contextmanager
def _wrong_clock() -> Iterator[None]:
    wrong = {
        "LD_PRELOAD": str(library("faketime/libfaketimeMT.so.1")),
        "FAKETIME": CLOCK_AHEAD,
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    os.environ.update(wrong)
    try:
        yield
    finally:
        for name in wrong:
            del os.environ[name]
