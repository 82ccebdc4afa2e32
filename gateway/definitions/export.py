"""Export what operators created as a document: objects by message VPN and kind, without defaults."""

import asyncio
from collections.abc import Iterable, Mapping

from sluicegate.gateway.definitions.document import SETTINGS, VERSION, Objects
from sluicegate.gateway.definitions.kinds import KIND_BY_NAME, KINDS
from sluicegate.gateway.operations.interface import NodeInterface
from sluicegate.gateway.provisioning.store import OPERATOR


async def exported(node: NodeInterface, vpns: Iterable[str] = (), *, with_settings: bool = True) -> dict[str, object]:
    """Return the document of these message VPNs, or of all. Without `with_settings` they have no settings of their own.

    Raises VpnNotFound.
    """
    known = {each.name: each for each in (await node.list_message_vpns()).message_vpns}
    document: dict[str, object] = {}
    for name in vpns or known:
        here = node.in_vpn(name)
        present = {kind.kind: await kind.present(here) for kind in KINDS if kind.kind != SETTINGS}
        view = known.get(name)
        if with_settings and view is not None and view.origin == OPERATOR:
            present[SETTINGS] = {name: {"name": name, **view.settings}}
        # In a thread: the objects of a large document take a second to compare with the defaults.
        document[name] = await asyncio.to_thread(_written, present)
    return {"version": VERSION, "message_vpns": document}


def _written(present: Mapping[str, Objects]) -> dict[str, object]:
    """Return the objects of a message VPN by kind. A kind without objects is an empty list."""
    exported: dict[str, object] = {}
    if SETTINGS in present:
        [fields] = present[SETTINGS].values()
        settings = KIND_BY_NAME[SETTINGS].written(fields)
        exported[SETTINGS] = {key: value for key, value in settings.items() if key != "name"}
    for kind in KINDS:
        if kind.kind != SETTINGS:
            exported[kind.kind] = [kind.written(fields) for _, fields in sorted(present[kind.kind].items())]
    return exported
