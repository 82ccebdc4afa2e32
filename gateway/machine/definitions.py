"""The definitions that all brokers of a machine have alike, as each has them in its store: how they are made equal.

They are what operators define while the machine runs, and is not at one broker: users, profiles, templates, links, and
message VPNs. A broker that starts takes over what the others have, before it reads its store. So the rows are as at the
others, and a user's password as well.

Invariant: brokers that take traffic have the same definitions, but for a change that is under way.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from sluicegate.gateway.node.links import LINKS
from sluicegate.gateway.provisioning.profiles import ACL, CLIENT
from sluicegate.gateway.provisioning.stored_users import USERS
from sluicegate.messaging.message.vpn import DEFAULT_VPN, row_prefix, rows_by_vpn
from sluicegate.storage.catalog.queues import TEMPLATE_ROW
from sluicegate.storage.catalog.vpn_rows import VPN_ROW, vpn_row
from sluicegate.storage.interface import CommitJob, Table, TableWrite
from sluicegate.storage.store.store import SpoolStore

# The beginnings of the keys of their rows.
KINDS: Final = (TEMPLATE_ROW, *[kind.row_key for kind in (USERS, CLIENT.objects, ACL.objects, LINKS)])
OTHER_VPNS: Final = b"\0"  # the beginning of all keys of message VPNs other than `default`
# The row of a broker that was made equal to others. Without it a broker is new, or what it had is lost.
EQUALIZED_ROW: Final = b"machine/definitions"


@final
@dataclass(frozen=True)
class Definitions:
    """The definitions that one broker has."""

    rows: dict[bytes, bytes]  # by full key
    vpns: frozenset[str]  # those of which the catalog has anything

    @property
    def are_equalized(self) -> bool:
        """Whether they were those of several brokers before."""
        return EQUALIZED_ROW in self.rows


def definitions_of(store: SpoolStore) -> Definitions:
    """Return the definitions in a store; for any thread. Raises StoreFailed."""
    rows: dict[bytes, bytes] = {}
    for prefix in (*KINDS, EQUALIZED_ROW):
        rows |= store.rows(Table.CATALOG, prefix)
    by_vpn = rows_by_vpn(store.rows(Table.CATALOG, OTHER_VPNS).items())
    for vpn, catalog in by_vpn.items():
        of_it = {key: value for key, value in catalog.items() if key.startswith(KINDS) or key == VPN_ROW}
        rows |= {row_prefix(vpn) + key: value for key, value in of_it.items()}
    return Definitions(rows, frozenset([DEFAULT_VPN, *by_vpn]))


def chosen(told: Sequence[Definitions]) -> Definitions:
    """Return the definitions that hold when no broker runs, of those that brokers have told, in their order.

    They are the first broker's: it gets each change before the others. If its store is new, because what it had is
    lost, they are those of the next one.
    """
    return next((each for each in told if each.are_equalized), told[0])


def writes(own: Definitions, wanted: Definitions) -> list[TableWrite]:
    """Return the rows to write at a broker, so that it has the definitions that are wanted.

    A message VPN that the others have deleted is deleted with all it holds, by the start that follows. One of which
    they have queues or users, but no definition, loses that alone.
    """
    rows = {**wanted.rows, EQUALIZED_ROW: b"1"}
    changed = [TableWrite(Table.CATALOG, key, value) for key, value in rows.items() if own.rows.get(key) != value]
    for key in own.rows.keys() - rows.keys():
        vpn = vpn_of(key)
        if vpn not in wanted.vpns and key == row_prefix(vpn) + VPN_ROW:
            changed.append(vpn_row(vpn, {}, deleting=True))
        else:
            changed.append(TableWrite(Table.CATALOG, key, None))
    return changed


def vpn_of(key: bytes) -> str:
    """Return the message VPN of a row, by its full key."""
    [vpn] = rows_by_vpn([(key, b"")])
    return vpn


def equalize(store: SpoolStore, wanted: Definitions) -> int:
    """Write what is wanted into a store that was opened and not read yet; return how many definitions differed.

    Raises StorageError.
    """
    changed = writes(definitions_of(store), wanted)
    if changed:
        number = store.recover().next_record_number
        store.commit(CommitJob(number=number, table_writes=changed, uses_reserve=True))
    return len([row for row in changed if row.key != EQUALIZED_ROW])
