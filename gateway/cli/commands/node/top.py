"""`sluicegate top`: a live view of the busiest queues, the clients, and the node's totals."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

import typer
from rich.console import Console, Group
from rich.text import Text

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, AdminClient, UrlOption, VpnOption
from sluicegate.gateway.cli.terminal.live_view import watch
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json, table
from sluicegate.gateway.config.sections.values import rounded_size
from sluicegate.gateway.views.clients.clients import CLIENTS_MAX, ClientView
from sluicegate.gateway.views.node.figures import QUEUES_MAX, NodeFigures, ProcessFigures, QueueFigures, QueuesFigures
from sluicegate.gateway.views.node.spool import SpoolView
from sluicegate.gateway.views.text import counted
from sluicegate.messaging.message.vpn import DEFAULT_VPN

COUNT_DEFAULT: Final = 20
NAME_CHARS: Final = 40  # of a client or queue; longer names are cut, so that the line fits


class Order(StrEnum):
    """How queues are sorted."""

    RATE = "rate"  # messages in and out per second
    BACKLOG = "backlog"
    NAME = "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The figures of a node at one moment."""

    node: NodeFigures
    queues: QueuesFigures
    spool: SpoolView
    clients: tuple[ClientView, ...]
    clients_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolRates:
    """Messages and bytes per second of one protocol."""

    protocol: str
    connections_count: int
    messages_received_rate: float
    messages_sent_rate: float
    bytes_received_rate: float
    bytes_sent_rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRates:
    """A queue with its messages per second."""

    queue: QueueFigures
    accepted_rate: float
    delivered_rate: float
    settled_rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TopView:
    """What `sluicegate top` shows; this is also what `--json` prints."""

    node: str
    version: str
    wall_ms: int
    interval_ms: int  # the rates are averages over it
    process: ProcessFigures | None
    cpu_share: float  # of one processor; 0 where the process has no figures
    protocols: tuple[ProtocolRates, ...]
    spool: SpoolView
    commits_rate: float
    queues_count: int
    queues: tuple[QueueRates, ...]
    clients_count: int
    clients: tuple[ClientView, ...]


def top(
    once: Annotated[bool, typer.Option("--once", help="Print once and exit.")] = False,
    order: Annotated[Order, typer.Option(help="Sort order of the queues.")] = Order.RATE,
    count: Annotated[
        int, typer.Option("-n", "--count", min=1, max=1000, help="Maximum number of queues and clients to show.")
    ] = COUNT_DEFAULT,
    every: Annotated[
        bool, typer.Option("--all", help="Include the queues of sessions and shared subscriptions.")
    ] = False,
    interval: Annotated[float, typer.Option(min=0.2, max=60, help="Seconds between updates.")] = 2.0,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Show the busiest queues and clients, and the node's totals.

    The clients are those with the most unacked messages. Ends when `q` or Ctrl-C is pressed. Rates
    are averages since the last update. With --json, one object per update.
    """
    client = AdminClient(url, vpn)
    console = Console()
    before = sample(client, every=every)

    def shown() -> TopView:
        nonlocal before
        now = sample(client, every=every)
        view, before = top_view(before, now, order=order, count=count), now
        return view

    try:
        time.sleep(interval)
        if as_json:
            print_json(shown())
            while not once:
                time.sleep(interval)
                print_json(shown())
        elif once or not console.is_terminal:
            wide = console if console.is_terminal else Console(width=10_000)
            wide.print(screen(shown()))
        else:
            watch(console, lambda: screen(shown()), interval)
    except KeyboardInterrupt:
        return


def sample(client: AdminClient, *, every: bool) -> Sample:
    """Read everything that `top` shows from a node."""
    clients = client.list_clients({"limit": CLIENTS_MAX})
    return Sample(
        node=client.node_figures(),
        queues=client.queues_figures({"named": 0 if every else 1, "limit": QUEUES_MAX}),
        spool=client.show_spool(),
        clients=clients.clients,
        clients_count=clients.total_count,
    )


def top_view(before: Sample, now: Sample, *, order: Order, count: int) -> TopView:
    """Return what `top` shows: the rates between two samples, and the first `count` queues and clients."""
    seconds = max(now.node.at_ms - before.node.at_ms, 1) / 1000
    clients = sorted(now.clients, key=lambda each: (-each.unacked_count, -each.flows_count, each.name))
    return TopView(
        node=now.node.name,
        version=now.node.version,
        wall_ms=now.node.wall_ms,
        interval_ms=round(seconds * 1000),
        process=now.node.process,
        cpu_share=_cpu_share(before.node, now.node, seconds),
        protocols=_protocols(before.node, now.node, seconds),
        spool=now.spool,
        commits_rate=_rate(before.node.spool_commits_total, now.node.spool_commits_total, seconds),
        queues_count=now.queues.total_count,
        queues=tuple(_ordered(_queues(before.queues, now.queues), order)[:count]),
        clients_count=now.clients_count,
        clients=tuple(clients[:count]),
    )


def _rate(before: int, now: int, seconds: float) -> float:
    """Return the increase per second; 0 for a total that fell, because its node restarted."""
    return round(max(now - before, 0) / seconds, 1)


def _cpu_share(before: NodeFigures, now: NodeFigures, seconds: float) -> float:
    if before.process is None or now.process is None:
        return 0.0
    return round(max(now.process.cpu_ms_total - before.process.cpu_ms_total, 0) / (seconds * 1000), 3)


def _protocols(before: NodeFigures, now: NodeFigures, seconds: float) -> tuple[ProtocolRates, ...]:
    earlier = {each.protocol: each for each in before.protocols}
    rates = []
    for each in now.protocols:
        then = earlier.get(each.protocol, each)
        rates.append(
            ProtocolRates(
                protocol=each.protocol,
                connections_count=each.connections_count,
                messages_received_rate=_rate(then.messages_received_total, each.messages_received_total, seconds),
                messages_sent_rate=_rate(then.messages_sent_total, each.messages_sent_total, seconds),
                bytes_received_rate=_rate(then.bytes_received_total, each.bytes_received_total, seconds),
                bytes_sent_rate=_rate(then.bytes_sent_total, each.bytes_sent_total, seconds),
            )
        )
    return tuple(rates)


def _queues(before: QueuesFigures, now: QueuesFigures) -> list[QueueRates]:
    seconds = max(now.at_ms - before.at_ms, 1) / 1000
    earlier = {each.name: each for each in before.queues}
    rates = []
    for each in now.queues:
        then = earlier.get(each.name, each)
        rates.append(
            QueueRates(
                queue=each,
                accepted_rate=_rate(then.accepted_total, each.accepted_total, seconds),
                delivered_rate=_rate(then.delivered_total, each.delivered_total, seconds),
                settled_rate=_rate(then.settled_total, each.settled_total, seconds),
            )
        )
    return rates


def _ordered(queues: list[QueueRates], order: Order) -> list[QueueRates]:
    def place(each: QueueRates) -> tuple[float, float, str]:
        rate, backlog = each.accepted_rate + each.settled_rate, float(each.queue.ready_count + each.queue.unacked_count)
        first, second = {Order.RATE: (rate, backlog), Order.BACKLOG: (backlog, rate), Order.NAME: (0.0, 0.0)}[order]
        return (-first, -second, each.queue.name)

    return sorted(queues, key=place)


def screen(view: TopView) -> Group:
    """Return the screen for the terminal."""
    spool = view.spool
    about = f"  release {view.version}  rates over {view.interval_ms / 1000:.1f} s{_process_text(view)}"
    head = Text.assemble((view.node, "bold"), about)
    state = Text.assemble(
        f"spool {counted(spool.messages_count, 'message')}, {_of(spool.messages_bytes, spool.messages_bytes_max)}",
        f"  map {_of(spool.used_bytes, spool.limit_bytes)}  memory {_of(spool.memory_bytes, spool.memory_bytes_max)}",
        f"  commits {view.commits_rate:g}/s",
        (f"  refuses messages: {spool.blocked}" if spool.blocked else "", "bold red"),
    )
    protocols = table(
        ("protocol", "connections", "in/s", "out/s", "in B/s", "out B/s"),
        [
            (
                each.protocol,
                each.connections_count,
                each.messages_received_rate,
                each.messages_sent_rate,
                each.bytes_received_rate,
                each.bytes_sent_rate,
            )
            for each in view.protocols
        ],
    )
    queues = table(
        ("queue", "in/s", "out/s", "settled/s", "ready", "unacked", "spooled", "flows", "partitions", "rebalance"),
        [_queue_row(each) for each in view.queues],
    )
    clients = table(
        ("client", "protocol", "flows", "unacked", "reading"),
        [
            (
                _cut(each.name),
                each.protocol,
                each.flows_count,
                each.unacked_count,
                "paused" if each.is_paused else "yes",
            )
            for each in view.clients
        ],
    )
    shown = (
        f"\n{len(view.queues)} of {view.queues_count} queues",
        f"\n{len(view.clients)} of {view.clients_count} clients",
    )
    return Group(head, state, Text(), protocols, Text(shown[0], "dim"), queues, Text(shown[1], "dim"), clients)


def _process_text(view: TopView) -> str:
    if view.process is None:
        return ""
    return f"  process {rounded_size(view.process.memory_bytes)}, {view.cpu_share:.0%} of a processor"


def _of(size: int, most: int) -> str:
    return f"{rounded_size(size)} of {rounded_size(most)}"


def _queue_row(each: QueueRates) -> Sequence[object]:
    queue = each.queue
    return (
        _cut(queue.name),
        each.accepted_rate,
        each.delivered_rate,
        each.settled_rate,
        queue.ready_count,
        queue.unacked_count,
        rounded_size(queue.spooled_bytes),
        queue.flows_count,
        queue.partition_count,
        queue.rebalance_status,
    )


def _cut(name: str) -> str:
    return name if len(name) <= NAME_CHARS else name[: NAME_CHARS - 1] + "…"
