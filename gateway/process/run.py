"""Run a node in a process of its own: event loop, signals, and what is printed when it is ready."""

import asyncio
import gc
import logging
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import final

from sluicegate.actors.runtime.clock import Clock, SystemClock
from sluicegate.gateway.build import release
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.node.environment import MACHINE, Environment, OperatorPorts
from sluicegate.gateway.node.node import Node, open_store
from sluicegate.gateway.node.os_limits import keep_freed_memory, raise_file_limit
from sluicegate.gateway.observability.logs import set_up_logging
from sluicegate.gateway.process.operator_ports import AdminPorts
from sluicegate.gateway.process.service_manager import tell_ready
from sluicegate.gateway.views.errors import CannotStart
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.protocols.transport.loop import event_loop as socket_loop
from sluicegate.storage.errors import StorageError
from sluicegate.storage.interface import Store


@final
class Reloading:
    """The reloads of one node by SIGHUP, one at a time, until it stops.

    Signals that come during a reload are coalesced into one more reload.
    """

    def __init__(self, node: "Node", read: Callable[[], Config]) -> None:
        self._node = node
        self._read = read
        self._requested = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def request(self) -> None:
        """Request a reload: now, or after the one that is under way."""
        self._requested.set()

    def stop(self) -> None:
        """Cancel the reload that is under way, and ignore further requests."""
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            await self._requested.wait()
            self._requested.clear()
            try:
                await self._node.reload_from(self._read)
            except Exception as error:  # an invalid file must not stop a running node
                log.error("the configuration was not taken over: %s", error)


log = logging.getLogger("sluicegate.node")

# Most allocations are bytes, which the collector does not track. Tracked objects belong to consumer windows and
# connections, about a hundred each. Objects pass the first two generations once. The second is collected often to stay
# small: collecting fifty thousand objects blocks the loop for 30 ms, a million for half a second.
GC_THRESHOLDS = (10_000, 4, 20_000)


def run(config: Config, *, reload: Callable[[], Config]) -> int:
    """Run a node until SIGTERM or SIGINT; return the exit code. SIGHUP reloads the configuration.

    The caller disables the garbage collector before importing this module; it is enabled when the node is ready. The
    caller also blocks SIGHUP, which would end the process; it is unblocked once its handler is set. Raises CannotStart.
    """
    prepare(config)
    return socket_loop.run(_serve(config, reload))


def prepare(config: Config, *, broker: str = "") -> None:
    """Set up logging, memory and file limits of a process with a node, one `broker` of several. Raises CannotStart."""
    begin_logging(config, broker=broker)
    keep_freed_memory()
    raise_file_limit(config)
    gc.freeze()  # objects of imported modules are never collected


def begin_logging(config: Config, *, broker: str = "") -> None:
    """Set up logging as configured. Raises CannotStart for an audit file that cannot be written."""
    try:
        set_up_logging(config.log, broker=broker)
    except OSError as error:
        text = f"log.audit_file: {config.log.audit_file} cannot be written: {error.strerror or error}"
        raise CannotStart(text) from None


async def _serve(config: Config, reload: Callable[[], Config]) -> int:
    store = open_store(config)
    node = make_node(config, store, operator_ports=AdminPorts)
    node.configuration = reload
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    reloading = Reloading(node, reload)
    loop.add_signal_handler(signal.SIGHUP, reloading.request)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])
    try:
        await node.start(before_opening=freeze)
    except CannotStart:
        _stop_reloading(reloading)
        await node.stop()  # cleanly: after a start that failed, the next one must not flag all messages as redelivered
        raise
    _announce(node)
    warn_of_unusable_listeners(unusable_listeners(node, config), _admin_port(node))
    collect_from_now_on()
    node.failed.add_done_callback(lambda _: stopping.set())
    await stopping.wait()
    _stop_reloading(reloading)
    if node.failed.done():
        log.error("the node cannot continue: %r", node.failed.result())
        store.close()
        return 1
    await node.stop()
    log.info("stopped")
    return 0


def make_node(
    config: Config,
    store: Store,
    *,
    clock: Clock | None = None,
    rng: random.Random | None = None,
    environment: Environment = MACHINE,
    operator_ports: Callable[[Node], OperatorPorts],
) -> Node:
    """Return the node of this process, on its store. Raises CannotStart for a store that cannot be read."""
    try:
        return Node(
            config,
            store=store,
            clock=clock or SystemClock(),
            rng=rng or random.SystemRandom(),
            environment=environment,
            operator_ports=operator_ports,
        )
    except StorageError as problem:
        text = f"the data folder {config.data.path} cannot be read: {problem}"
        raise CannotStart(text, advice="Check it with `sluicegate doctor`.") from None


def collect_from_now_on() -> None:
    """Enable the garbage collector, for what is made from now on: the node is ready."""
    freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()


def freeze() -> None:
    """Collect what the start has left behind, and keep all else out of collections: it stays.

    With thousands of queues this takes half a second, so most of it is done before ports are open.
    """
    gc.collect()
    gc.freeze()


def _stop_reloading(reloading: Reloading) -> None:
    """Stop reloading, and block SIGHUP: it would end the process before the node has stopped."""
    reloading.stop()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])


def _announce(node: Node) -> None:
    mqtt = node.mqtt.listeners.get("mqtt")
    commands = first_commands(None if mqtt is None else mqtt.port, _admin_port(node))
    announce("is ready.", node.endpoints(), commands)


def announce(what: str, endpoints: Sequence[tuple[str, str]], commands: Sequence[str]) -> None:
    """Print what is ready, the addresses to connect to, and commands to try; tell the service manager."""
    tell_ready(f"Sluicegate {release()} {what}")
    width = max([len(name) for name, _ in endpoints], default=0)
    addresses = [f"  {name:<{width}}  {url}" for name, url in endpoints]
    lines = [f"Sluicegate {release()} {what}", *addresses, *commands]
    if sys.stdout is None:  # it was closed before the process started
        return
    try:  # unbuffered: what a buffer could not write would be written again at exit
        os.write(sys.stdout.fileno(), ("\n".join(lines) + "\n").encode())
    except OSError as error:
        log.warning("cannot write the endpoints to standard output: %s", error.strerror)


def unusable_listeners(node: Node, config: Config) -> dict[str, list[str]]:
    """Return the names of listeners on which no client can log in, by message VPN."""
    unusable: dict[str, list[str]] = {}
    for name, listener in config.listeners.enabled().items():
        if node.vpns[listener.vpn].accounts.admits_nobody_on(name):
            unusable.setdefault(listener.vpn, []).append(name)
    return unusable


def warn_of_unusable_listeners(unusable: Mapping[str, Sequence[str]], admin_port: int | None) -> None:
    """Warn of listeners on which no client can log in, with the command that adds a user."""
    for vpn, names in unusable.items():
        option = "" if vpn == DEFAULT_VPN else f" --vpn {vpn}"
        where = ", ".join(f"listeners.{name}" for name in names)
        text = "%s: no client can log in, because message VPN %s has no user; add one: sluicegate user add NAME%s%s"
        log.warning(text, where, vpn, _url_option(admin_port), option)


def _admin_port(node: Node) -> int | None:
    assert isinstance(node.operator_ports, AdminPorts), "_serve made them"
    return node.operator_ports.ports.admin_port


def _url_option(admin_port: int | None) -> str:
    """Return the option that commands on this machine need for the admin port; empty for its default."""
    return "" if admin_port in (None, 8080) else f" --url http://127.0.0.1:{admin_port}"


def first_commands(mqtt_port: int | None, admin_port: int | None) -> list[str]:
    """Return lines with the first three commands to try; none without a port for MQTT.

    The command may not be on the path: `make run` and `gateway/bin/sluicegate serve` activate no environment.
    """
    if mqtt_port is None:
        return []
    place = "" if shutil.which("sluicegate") else f" (the command is in {Path(sys.executable).parent})"
    port = "" if mqtt_port == 1883 else f" --port {mqtt_port}"
    url = _url_option(admin_port)
    return [
        f"Try, in another terminal{place}:",
        f"  sluicegate queue create orders --partitions 4 --subscription 'orders/>'{url}",
        f"  sluicegate sub --queue orders{port}",
        f"  sluicegate pub --topic orders/eu --key customer-7 --message hello{port}",
    ]
