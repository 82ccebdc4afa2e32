"""Reload the configuration at the request of an operator."""

import asyncio

from sluicegate.gateway.config.document import ConfigError
from sluicegate.gateway.node.node import Node
from sluicegate.gateway.views.errors import Refused
from sluicegate.gateway.views.queues import ReloadView


async def reload_configuration(node: Node) -> ReloadView:
    """Read the configuration again, from the sources that the node was started with. Raises Refused.

    The reload runs to its end even if the caller no longer waits: creating thousands of queues takes longer than the
    time limit of a response.
    """
    if node.configuration is None:
        raise Refused("this node was not started with a configuration that can be read again")
    try:
        reloading = asyncio.create_task(node.reload(node.configuration()))
        node.services.runtime.keep(reloading)
        changes = await asyncio.shield(reloading)
    except ConfigError as problem:
        raise Refused(f"the configuration is wrong: {problem}") from None
    except (OSError, ValueError) as problem:  # as Node.reload says
        raise Refused(f"a file that the configuration names cannot be used: {problem}") from None
    return ReloadView(
        taken_over=tuple(str(change) for change in changes.reloadable),
        restart_needed=tuple(str(change) for change in changes.restart_needed),
        warnings=tuple(text for vpn in node.vpns.values() for text in vpn.warnings),
    )
