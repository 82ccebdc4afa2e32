"""Export what operators created as a document: objects by message VPN and kind, without defaults."""

from collections.abc import Iterable, Mapping
from functools import partial

from sluicegate.gateway.definitions.background import in_background
from sluicegate.gateway.definitions.document import SETTINGS, USERS, VERSION, Fields, Objects
from sluicegate.gateway.definitions.kinds import KIND_BY_NAME, KINDS
from sluicegate.gateway.operations.interface import NodeInterface
from sluicegate.gateway.provisioning.store import OPERATOR
from sluicegate.gateway.views.clients.accounts import PasswordHashes


async def exported(
    node: NodeInterface, vpns: Iterable[str] = (), *, with_settings: bool = True, with_password_hashes: bool = False
) -> dict[str, object]:
    """Return the document of these message VPNs, or of all. Without `with_settings` they have no settings of their own.

    `with_password_hashes`: users have what is stored of their passwords. Raises VpnNotFound.
    """
    known = {each.name: each for each in (await node.list_message_vpns()).message_vpns}
    document: dict[str, object] = {}
    for name in vpns or known:
        here = node.in_vpn(name)
        present = {kind.kind: await kind.present(here) for kind in KINDS if kind.kind != SETTINGS}
        hashes = await here.password_hashes() if with_password_hashes else {}
        view = known.get(name)
        if with_settings and view is not None and view.origin == OPERATOR:
            present[SETTINGS] = {name: {"name": name, **view.settings}}
        document[name] = await in_background(partial(_written, present, hashes))
    return {"version": VERSION, "message_vpns": document}


def _written(present: Mapping[str, Objects], hashes: Mapping[str, PasswordHashes]) -> dict[str, object]:
    """Return the objects of a message VPN by kind. A kind without objects is an empty list."""
    exported: dict[str, object] = {}
    if SETTINGS in present:
        [fields] = present[SETTINGS].values()
        settings = KIND_BY_NAME[SETTINGS].written(fields)
        exported[SETTINGS] = {key: value for key, value in settings.items() if key != "name"}
    for kind in KINDS:
        if kind.kind != SETTINGS:
            exported[kind.kind] = [kind.written(fields) for _, fields in sorted(present[kind.kind].items())]
    if hashes:
        exported[USERS] = [_with_hashes(user, hashes) for _, user in sorted(present[USERS].items())]
    return exported


def _with_hashes(user: Fields, hashes: Mapping[str, PasswordHashes]) -> Fields:
    found = hashes.get(str(user["name"]))  # None: it was created meanwhile
    return {**KIND_BY_NAME[USERS].written(user), **({} if found is None else found.fields())}
