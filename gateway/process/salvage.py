"""`sluicegate doctor --salvage`: report what could be salvaged of a damaged spool, as an examination."""

from collections.abc import Callable
from pathlib import Path

from sluicegate.gateway.config.model import Config
from sluicegate.gateway.process.doctor import Examination, claimed, in_words
from sluicegate.storage.backup.reader import SpoolReader
from sluicegate.storage.environment.folder_lock import DATA_FILE
from sluicegate.storage.errors import StorageError
from sluicegate.storage.integrity.inspection import owners_of
from sluicegate.storage.integrity.salvage_copy import Salvaged, salvage_spool


def salvage_node(config: Config, folder: Path, *, incarnation: int, looked: Callable[[], None]) -> Examination:
    """Bring what can be read of a node's spool into a new one in `folder`. `looked` is called for each page."""
    examination = Examination()
    damaged = config.data.path / DATA_FILE
    examination.looked_at["damaged spool"] = str(damaged)
    try:
        with claimed(config.data.path) as holder:
            if holder is not None:
                examination.error("data.path", f"in use by process {holder or 'unknown'}: stop it first")
                return examination
            salvaged = salvage_spool(damaged, folder, incarnation=incarnation, looked=looked)
        examination.looked_at["new spool"] = str(folder / DATA_FILE)
        _tell(examination, salvaged, folder)
    except OSError as error:
        examination.error("salvage", in_words(error))
    except StorageError as error:
        examination.error("salvage", str(error))
    return examination


def _tell(examination: Examination, salvaged: Salvaged, folder: Path) -> None:
    examination.looked_at["incarnation"] = f"{salvaged.incarnation:016x}"
    for name, table in sorted(salvaged.tables.items()):
        of_how_many = "an unknown number" if table.wanted is None else str(table.wanted)
        examination.looked_at[f"rows of {name}"] = f"{table.found} of {of_how_many}"
        if not table.is_whole():
            missing = "how many more there were is not known"
            if table.wanted is not None:
                missing = f"{table.wanted - table.found} of {table.wanted} rows are missing"
            examination.error(name, missing + _LOST.get(name, ""))
    if salvaged.unclaimed:
        text = f"{salvaged.unclaimed} rows may belong to several tables that lost some, and are left out"
        examination.error("tables", text)
    with SpoolReader.open_folder(folder) as reader:
        owners, _ = owners_of(reader)
        for vpn in reader.vpns.values():
            for name in vpn.queues:
                held = sum(each.waiting_count for each in vpn.partitions(name))
                examination.looked_at[f"messages of queue {name} ({vpn.name})"] = held
    for key, summary in salvaged.pages_lost:
        owner = owners.get(key.partition_id, f"partition {key.partition_id}, whose queue is not known")
        text = f"{summary.message_count} messages, sequences {summary.first_sequence} to {summary.end_sequence - 1}"
        examination.error(owner, f"a page is missing: {text}, less those that were settled")
    for partition_id in salvaged.cursors_lost:
        owner = owners.get(partition_id, f"partition {partition_id}, whose queue is not known")
        examination.error(owner, "its cursor is missing: messages that were settled may come again")


_LOST = {
    "catalog": ": queues, users or profiles that have to be made again",
    "journal": ": messages of all queues, and settlements, so that messages may come again",
    "pages": ": messages, below by queue where it is known",
    "readers": ": durable cursors with their positions",
    "retained": ": retained messages",
    "sessions": ": sessions of MQTT clients, or states of publishers that return",
    "transactions": ": staged transactions",
}
