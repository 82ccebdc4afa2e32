"""Puts together the actor that makes a node's backups. Operators reach it by `gateway.operations.backups`."""

from typing import TYPE_CHECKING

from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.actors.runtime.supervision import RESTARTED
from sluicegate.actors.spool.backups import BackupActor, BackupRecord
from sluicegate.gateway.build import VERSION

if TYPE_CHECKING:
    from sluicegate.gateway.node.node import Node


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
