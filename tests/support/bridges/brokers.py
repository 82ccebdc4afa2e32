"""Two brokers under test with a bridge from one to the other, over the protocol that the test chooses."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from sluicegate.gateway.config.load import load
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.bridges import BridgeRuleView, BridgeView
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import DEADLINE_S
from support.network.certificates import Certificates


def bridges(*configured: dict[str, Any]) -> str:
    """Return the setting of bridges. They try again soon, for a test waits for it."""
    value = [{"name": "b", "retry_delay_s": 1, **each} for each in configured]
    return "bridges=" + yaml.safe_dump(value, default_flow_style=True, width=100_000).strip()


async def configure(broker: RunningBroker, *configured: dict[str, Any]) -> None:
    """Have the broker take over a configuration with these bridges, and no others."""
    await broker.node.reload(load(None, settings=("node.name=sluicegate", *broker.settings, bridges(*configured))))


async def shown(broker: RunningBroker, name: str = "b") -> BridgeView:
    """Return a bridge as operators see it."""
    return await NodeOperations(broker.node).show_bridge(name)


async def shows(broker: RunningBroker, condition: Callable[[BridgeView], bool], name: str = "b") -> BridgeView:
    """Wait until a bridge looks as it should."""
    try:
        async with asyncio.timeout(2 * DEADLINE_S):
            while not condition(view := await shown(broker, name)):
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"after {2 * DEADLINE_S} s the bridge is {await shown(broker, name)}") from None
    return view


def all_up(view: BridgeView) -> bool:
    """Return whether the bridge and all of its rules are up."""
    return view.up and all(rule.up for rule in view.rules)


async def connect(broker: RunningBroker, **configured: Any) -> BridgeView:
    """Configure one bridge, and wait until all of it is up."""
    await configure(broker, configured)
    return await shows(broker, all_up)


def rule(view: BridgeView, direction: str) -> BridgeRuleView:
    """Return the only rule of a direction."""
    [found] = [each for each in view.rules if each.direction == direction]
    return found


@asynccontextmanager
async def another_broker(tmp_path: Path, *settings: str, **accounts: str) -> AsyncIterator[RunningBroker]:
    """Yield a second broker, of another name."""
    async with RunningBroker(tmp_path / "other", ("node.name=other", *settings), accounts) as other:
        yield other


def mqtt_url(broker: RunningBroker) -> str:
    return f"mqtt://127.0.0.1:{broker.port}"


async def takes_the_right_password(broker: RunningBroker, url: str, folder: Path, *, reason: str) -> None:
    """Configure a bridge with a wrong password for `me`, see the reason shown, and correct it to `right`."""
    password = folder / "password"
    password.write_text("wrong\n")
    told = {
        "remote_url": url,
        "username": "me",
        "password_file": str(password),
        "outgoing": [{"topic": "a/#"}],
    }
    await configure(broker, told)
    view = await shows(broker, lambda view: view.failures >= 1)
    assert reason in view.reason
    password.write_text("right\n")
    await configure(broker, told)
    await shows(broker, all_up)


async def takes_the_right_certificates(broker: RunningBroker, made: Certificates, **told: Any) -> None:
    """Configure a bridge that does not trust the other broker, see the reason shown, and give it its certificates."""
    told["outgoing"] = [{"topic": "a/#"}]
    await configure(broker, told)
    view = await shows(broker, lambda view: view.failures >= 1)
    assert "certificate verify failed" in view.reason
    trusted = {
        **told,
        "tls_authorities_file": str(made.authority),
        "tls_certificate_file": str(made.client),
        "tls_certificate_key_file": str(made.client_key),
    }
    await configure(broker, trusted)
    await shows(broker, all_up)
