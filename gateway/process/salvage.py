"""`sluicegate doctor --salvage`: report what could be salvaged of a damaged spool, as an examination."""

from collections.abc import Callable
from pathlib import Path

from sluicegate.gateway.config.model import Config
from sluicegate.gateway.process.brokers import broker_folder, brokers_in, config_of_broker
from sluicegate.gateway.process.doctor import Examination, claimed, error_text
from sluicegate.gateway.views.text import counted
from sluicegate.storage.backup.reader import SpoolReader
from sluicegate.storage.environment.folder_lock import DATA_FILE
from sluicegate.storage.errors import StorageError
from sluicegate.storage.integrity.inspection import owners_of
from sluicegate.storage.integrity.salvage_copy import Salvaged, salvage_spool


def salvage_node(
    config: Config, folder: Path, *, incarnation: Callable[[], int], looked: Callable[[], None]
) -> Examination:
    """Copy what is readable of a node's spool into a new spool in `folder`, and so for each broker that it has.

    `incarnation` draws that of a new spool; `looked` is called for each page.
    """
    examination = Examination()
    try:
        numbers = brokers_in(config.data.path)
    except OSError as error:
        examination.error("salvage", error_text(error))
        return examination
    for number in numbers:
        own, place = config_of_broker(config, number, len(numbers), {}), broker_folder(folder, number)
        examination.add(_salvage_broker(own, place, incarnation(), looked), number)
    return examination


def _salvage_broker(config: Config, folder: Path, incarnation: int, looked: Callable[[], None]) -> Examination:
    examination = Examination()
    damaged = config.data.path / DATA_FILE
    examination.looked_at["damaged spool"] = str(damaged)
    try:
        with claimed(config.data.path) as holder:
            if holder is not None:
                examination.error("data.path", f"in use by process {holder or 'unknown'}; stop that process first")
                return examination
            salvaged = salvage_spool(damaged, folder, incarnation=incarnation, looked=looked)
        examination.looked_at["new spool"] = str(folder / DATA_FILE)
        _tell(examination, salvaged, folder)
    except OSError as error:
        examination.error("salvage", error_text(error))
    except StorageError as error:
        examination.error("salvage", str(error))
    return examination


def _tell(examination: Examination, salvaged: Salvaged, folder: Path) -> None:
    examination.looked_at["incarnation"] = f"{salvaged.incarnation:016x}"
    for name, table in sorted(salvaged.tables.items()):
        of_how_many = "an unknown number" if table.wanted is None else str(table.wanted)
        examination.looked_at[f"rows of {name}"] = f"{table.found} of {of_how_many}"
        if not table.is_whole():
            missing = "an unknown number of rows is missing"
            if table.wanted is not None:
                missing = f"{table.wanted - table.found} of {counted(table.wanted, 'row')} missing"
            examination.error(name, missing + _LOST.get(name, ""))
    if salvaged.unclaimed:
        text = f"{counted(salvaged.unclaimed, 'row')} left out, which may belong to any of several damaged tables"
        examination.error("tables", text)
    with SpoolReader.open_folder(folder) as reader:
        owners, _ = owners_of(reader)
        for vpn in reader.vpns.values():
            for name in vpn.queues:
                held = sum(each.waiting_count for each in vpn.partitions(name))
                examination.looked_at[f"messages of queue {name} ({vpn.name})"] = held
    for key, summary in salvaged.pages_lost:
        owner = owners.get(key.partition_id, f"partition {key.partition_id} of an unknown queue")
        sequences = f"sequences {summary.first_sequence} to {summary.end_sequence - 1}"
        text = f"a page is missing: {counted(summary.message_count, 'message')}, {sequences}, minus the settled ones"
        examination.error(owner, text)
    for partition_id in salvaged.cursors_lost:
        owner = owners.get(partition_id, f"partition {partition_id} of an unknown queue")
        examination.error(owner, "its cursor is missing: settled messages may be delivered again")


_LOST = {
    "catalog": ": queues, users or profiles, which must be created again",
    "journal": ": messages and settlements of all queues; settled messages may be delivered again",
    "log": ": recent messages, settlements and rows of all tables",
    "pages": ": messages, listed below by queue where it is known",
    "readers": ": durable cursors with their positions",
    "retained": ": retained messages",
    "sessions": ": sessions of MQTT clients, or state of returning publishers",
    "transactions": ": staged transactions",
}
