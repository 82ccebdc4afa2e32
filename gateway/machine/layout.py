"""What the brokers of one machine are called, where their data are, and with what configuration each of them runs.

The first has the name and the data folder that a single broker has: so a data folder of one is that of several.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sluicegate.gateway.config.model import BROKERS_MAX, Config

BROKERS_FOLDER: Final = "brokers"  # in the data folder: a folder for each broker but the first, by its number


def broker_name(name: str, number: int) -> str:
    """Return the name of a broker of the node of this name."""
    return name if number == 1 else f"{name}-{number}"


def broker_names(name: str, count: int) -> tuple[str, ...]:
    """Return the names of all brokers, in the order of their numbers, which begin with 1."""
    return tuple(broker_name(name, number) for number in range(1, count + 1))


def broker_folder(data: Path, number: int) -> Path:
    """Return the data folder of a broker."""
    return data if number == 1 else data / BROKERS_FOLDER / str(number)


def count_of(brokers: int | str) -> int:
    """Return how many brokers the setting asks for: `auto` is one for each processor that this process may use."""
    return min(BROKERS_MAX, len(os.sched_getaffinity(0))) if isinstance(brokers, str) else brokers


def brokers_with_data(data: Path) -> int:
    """Return the highest number of a broker that has a folder; 1 if there is none."""
    try:
        numbers = [int(each.name) for each in (data / BROKERS_FOLDER).iterdir() if each.name.isdecimal()]
    except (FileNotFoundError, NotADirectoryError):
        return 1
    return max(numbers, default=1)


def config_of_broker(config: Config, number: int, ports: Mapping[str, int]) -> Config:
    """Return the configuration of one broker. `ports` are those of listeners that the kernel has picked."""
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
        }
    )
