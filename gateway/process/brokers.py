"""What the brokers of one machine are called, where their data are, and with what configuration each of them runs.

The first has the name and the data folder that a single broker has: so a data folder of one is that of several.
"""

import math
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from sluicegate.gateway.config.model import BROKERS_MAX, Config
from sluicegate.gateway.config.sections.section import NamedSection
from sluicegate.gateway.config.sections.values import MIB
from sluicegate.gateway.views.errors import CannotStart
from sluicegate.messaging.clients.homes import home_of
from sluicegate.storage.backup.folder import BROKERS_FOLDER

T = TypeVar("T", bound=NamedSection)

REMOVED_SUFFIX: Final = ".removed"  # of a folder that is being deleted
CGROUPS: Final = Path("/sys/fs/cgroup")  # control groups, version 2; in a container, the root is the container's own


def broker_name(name: str, number: int) -> str:
    """Return the name of a broker of the node of this name."""
    return name if number == 1 else f"{name}-{number}"


def broker_names(name: str, count: int) -> tuple[str, ...]:
    """Return the names of all brokers, in the order of their numbers, which begin with 1."""
    return tuple(broker_name(name, number) for number in range(1, count + 1))


def broker_folder(folder: Path, number: int) -> Path:
    """Return the folder of a broker in a data folder, or in a backup."""
    return folder / broker_place(number)


def broker_place(number: int) -> Path:
    """Return where a broker's folder is in a data folder, or in a backup: that of the first broker is the folder."""
    return Path() if number == 1 else Path(BROKERS_FOLDER, str(number))


def count_of(brokers: int | str) -> int:
    """Return how many brokers the setting asks for: `auto` is one for each processor that this process may use."""
    return min(BROKERS_MAX, processors()) if isinstance(brokers, str) else brokers


def processors(cgroups: Path = CGROUPS, membership: Path = Path("/proc/self/cgroup")) -> int:
    """Return how many processors this process may use: those it is bound to, or the limit of its container or service.

    The lesser counts. A limit of a part of a processor counts as a whole one.
    """
    bound_count = len(os.sched_getaffinity(0))
    try:
        own = membership.read_text().rpartition("0::/")[2].strip()
        quota, period = (cgroups / own / "cpu.max").read_text().split()
        return min(bound_count, max(1, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):  # there is no such file, or it says `max`
        return bound_count


def brokers_in(folder: Path) -> tuple[int, ...]:
    """Return the numbers of the brokers that have a folder in a data folder, or in a backup; the first always has.

    Raises OSError for a folder that cannot be read.
    """
    if not os.path.isdir(folder / BROKERS_FOLDER):  # also of a name that is too long
        return (1,)
    numbers = [int(each.name) for each in (folder / BROKERS_FOLDER).iterdir() if each.name.isdecimal()]
    return (1, *sorted(number for number in numbers if number > 1))


def total_count(data: Path, count: int) -> int:
    """Return how many brokers have to run: `count`, and retired ones behind them, which have left data in the folder.

    Raises CannotStart for a folder that cannot be read.
    """
    try:
        finish_removals(data)
        return max(count, brokers_in(data)[-1])
    except OSError as error:
        raise CannotStart(f"the data folder {data} cannot be used: {error.strerror}") from None


def remove_folder(data: Path, number: int) -> None:
    """Delete the data of a broker that has nothing left. A start that comes in between finds all of it, or nothing.

    Raises OSError.
    """
    finish_removals(data)
    folder = broker_folder(data, number)
    folder.rename(folder.with_name(f"{number}{REMOVED_SUFFIX}"))
    finish_removals(data)
    with suppress(OSError):  # there are others
        folder.parent.rmdir()


def finish_removals(data: Path) -> None:
    """Delete what is left of folders whose removal was interrupted. Raises OSError."""
    for each in (data / BROKERS_FOLDER).glob(f"*{REMOVED_SUFFIX}"):
        shutil.rmtree(each)


def config_of_broker(config: Config, number: int, count: int, ports: Mapping[str, int]) -> Config:
    """Return the configuration of one broker of so many. `ports` are those of listeners that the kernel has picked.

    A bridge, and a REST delivery point, runs at one broker, which its name chooses; none at a retired broker, whose
    number is greater than `count`.
    """

    def here(named: Iterable[T]) -> tuple[T, ...]:
        return tuple([each for each in named if home_of(each.name, count) == number])

    listeners = config.listeners
    picked = {name: getattr(listeners, name).model_copy(update={"port": port}) for name, port in ports.items()}
    admin = config.admin
    return config.model_copy(
        update={
            "brokers": None,
            "node": config.node.model_copy(update={"name": broker_name(config.node.name, number)}),
            "data": config.data.model_copy(update={"path": broker_folder(config.data.path, number)}),
            "listeners": listeners.model_copy(update=picked),
            "admin": admin.model_copy(
                update={"enabled": False, "tls": admin.tls.model_copy(update={"enabled": False})}
            ),
            "health": config.health.model_copy(update={"enabled": False}),
            "bridges": here(config.bridges),
            "rest_delivery_points": here(config.rest_delivery_points),
            "vpns": {
                name: vpn.model_copy(
                    update={"bridges": here(vpn.bridges), "rest_delivery_points": here(vpn.rest_delivery_points)}
                )
                for name, vpn in config.vpns.items()
            },
        }
    )


def divided(config: Config, count: int) -> Config:
    """Return a configuration with the part of one of `count` brokers of the memory that it sets aside for the node.

    So are unsettled messages, which are in memory. What is stored, and who is connected, brokers count together.
    """
    spool, limits, backpressure, amqp = config.spool, config.limits, config.backpressure, config.amqp
    transactions_bytes = max(amqp.max_transaction_size, amqp.max_open_transactions_size // count)
    return config.model_copy(
        update={
            "spool": spool.model_copy(update={"memory_bytes_max": _part(spool.memory_bytes_max, count)}),
            "limits": limits.model_copy(
                update={
                    "delivered_unacked_max": max(1, limits.delivered_unacked_max // count),
                    "login_memory_bytes_max": _part(limits.login_memory_bytes_max, count),
                }
            ),
            "backpressure": backpressure.model_copy(
                update={"unfinished_bytes_max": _part(backpressure.unfinished_bytes_max, count)}
            ),
            "amqp": amqp.model_copy(update={"max_open_transactions_size": transactions_bytes}),
        }
    )


def _part(memory_bytes: int, count: int) -> int:
    return max(MIB, memory_bytes // count)  # the least that a setting may be
