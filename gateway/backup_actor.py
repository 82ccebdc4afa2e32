"""The actor that makes a node's backups, put together. What operators ask of it goes by `gateway.backups`."""

from typing import TYPE_CHECKING

from sluicegate.actors.backups import BackupActor, BackupRecord
from sluicegate.actors.cell import ActorCell
from sluicegate.actors.supervision import RESTARTED
from sluicegate.gateway.version import VERSION

if TYPE_CHECKING:
    from sluicegate.gateway.node import Node


def spawn_backups(node: "Node") -> ActorCell:
    """Start the actor that makes backups."""
    record = BackupRecord()
    return node.runtime.spawn(
        lambda cell: BackupActor(
            cell,
            record,
            store=node.store,
            folder=node.config.backup.path.absolute(),
            incarnation=node.recovered.incarnation,
            node=node.config.node.name,
            release=VERSION,
        ),
        kind="backups",
        name="backups",
        policy=RESTARTED,
        parent=node.root,
    )
