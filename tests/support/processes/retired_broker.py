"""Have the second broker of a machine stay while it is retired, so that tests can kill it whenever they like."""

from typing import Final

from support.processes.gateway import wait_until
from support.processes.machine import MachineProcess

STAYING: Final = "stays"  # a queue that cannot move, for it keeps messages
WITHIN_S: Final = 120


def keep_second(machine: MachineProcess) -> None:
    """Have the second broker of two have a queue that cannot move."""
    name = machine.settings.get("node.name", "sluicegate")
    machine.create_queue(STAYING, retention_time_s=3600, home=f"{name}-2")


def end_second(machine: MachineProcess) -> None:
    """Delete what keeps the second broker, and wait until it has ended."""
    wait_until(lambda: machine.deletes_queue(STAYING), within_s=WITHIN_S, what="the deletion of a queue")
    wait_until(lambda: machine.broker_folders() == [], within_s=WITHIN_S, what="the end of the retired broker")
    machine.until_retired(1)
