"""Start the actor that makes a node's backups. Operators reach it by `gateway.operations.backups`."""

from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.actors.runtime.supervision import RESTARTED
from sluicegate.actors.spool.backups import BackupActor, BackupRecord
from sluicegate.gateway.build import VERSION
from sluicegate.gateway.node.services import NodeServices


def spawn_backups(services: NodeServices) -> ActorCell:
    """Start the actor that makes backups."""
    record = BackupRecord()
    return services.runtime.spawn(
        lambda cell: BackupActor(
            cell,
            record,
            store=services.store,
            folder=services.config.backup.path.absolute(),
            incarnation=services.recovered.incarnation,
            node=services.config.node.name,
            release=VERSION,
        ),
        kind="backups",
        name="backups",
        policy=RESTARTED,
        parent=services.root,
    )
