"""`sluicegate queue ...`: create, change, list, show, delete, purge and browse queues over the admin port."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, Final

import typer
from rich.console import Console

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, AdminClient, UrlOption, VpnOption
from sluicegate.gateway.cli.commands.queues import moves
from sluicegate.gateway.cli.commands.queues.messages import SelectorOption, add_to, replay
from sluicegate.gateway.cli.terminal.confirmation import confirm
from sluicegate.gateway.cli.terminal.failures import USAGE, CommandFailed
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json, print_table, time_text
from sluicegate.gateway.config.sections.values import rounded_size
from sluicegate.gateway.views.queues.cursors import CursorView
from sluicegate.gateway.views.queues.messages import MessageSearchView, MessageView
from sluicegate.gateway.views.queues.queues import FlowView, NetworkQueueView, PartitionView, QueueView
from sluicegate.gateway.views.text import counted, printable
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.queues.attributes import (
    ATTRIBUTE_BY_NAME,
    FLAG,
    NUMBER,
    PARTITION_COUNT_MAX,
    AttributeValue,
    no_such_attribute,
)

SEARCH_PAGE_MAX: Final = 1000  # messages of one request

app = typer.Typer(help="Create, inspect and delete queues.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the queue.")]
TopicsArgument = Annotated[
    list[str], typer.Argument(metavar="TOPIC", help="Topic filters, such as 'orders/>'; quote them for the shell.")
]
DEFINITION_LOST = "its definition was lost: it is shut down until its ingress or egress is enabled, or it is declared"
SELECTORS_DIFFER = (
    "the selectors of its consumers differ: a message that the owner of its partition does not select waits, even if "
    "another consumer selects it"
)
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


@app.command("create")
def create(
    name: NameArgument,
    access_type: Annotated[str | None, typer.Option(help="Access type: exclusive or non-exclusive.")] = None,
    partitions: Annotated[
        int | None, typer.Option(min=0, max=PARTITION_COUNT_MAX, help="Number of partitions; implies non-exclusive.")
    ] = None,
    subscribe: Annotated[
        list[str] | None, typer.Option("--subscription", "-s", help="Topic subscription; repeatable.")
    ] = None,
    attributes: Annotated[
        list[str] | None,
        typer.Option("--attribute", "-a", metavar="NAME=VALUE", help="Any other attribute; repeatable."),
    ] = None,
    temporary: Annotated[
        bool,
        typer.Option(
            "--temporary", help="Keep the queue in memory only, and delete it some time after its last consumer."
        ),
    ] = False,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Create a queue. Other attributes come from the template that matches its name, or have their defaults."""
    definition: dict[str, object] = {"name": name, "subscriptions": subscribe or []}
    if temporary:
        definition["durable"] = False
    definition |= dict(attribute_value(text) for text in attributes or ())
    if access_type is not None:
        definition["access_type"] = access_type
    if partitions is not None:
        definition["partition_count"] = partitions
        if partitions and access_type is None:
            definition["access_type"] = "non-exclusive"
    view = AdminClient(url, vpn).create_queue(definition)
    if as_json:
        print_json(view)
    else:
        kind = view.config.access_type if view.durable else f"temporary {view.config.access_type}"
        typer.echo(f"created {kind} queue {view.name}{_partition_text(view)}")
    _print_warnings(view)


@app.command("set")
def change(
    name: NameArgument,
    changes: Annotated[
        list[str], typer.Argument(metavar="ATTRIBUTE=VALUE", help="New values. Other attributes stay as they are.")
    ],
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Change attributes of a queue. If one is refused, none is changed."""
    view = AdminClient(url, vpn).update_queue(name, dict(attribute_value(text) for text in changes))
    if as_json:
        print_json(view)
    else:
        typer.echo(f"changed queue {view.name}")


@app.command("subscribe")
def subscribe_to(
    name: NameArgument,
    topics: TopicsArgument,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
) -> None:
    """Add topic subscriptions to a queue. `!TOPIC` is an exception: the queue does not collect what matches it."""
    client = AdminClient(url, vpn)
    for topic in topics:
        client.add_subscription(name, topic)
        typer.echo(f"{name} subscribes to {printable(topic)}")


@app.command("unsubscribe")
def unsubscribe_from(
    name: NameArgument,
    topics: TopicsArgument,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
) -> None:
    """Remove topic subscriptions from a queue. Messages that it has collected stay."""
    client = AdminClient(url, vpn)
    for topic in topics:
        client.remove_subscription(name, topic)
        typer.echo(f"{name} no longer subscribes to {printable(topic)}")


@app.command("list")
def list_all(
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    network: Annotated[
        bool, typer.Option("--network", help="Only the queues of other brokers of the network.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List all queues, and those of other brokers of the network."""
    client = AdminClient(url, vpn)
    if network:
        found = client.list_network_queues()
        print_json(found) if as_json else _print_network_queues(found)
        return
    views = client.list_queues()
    if as_json:
        print_json(views)
        return
    columns: tuple[str, ...] = ("name", "access", "partitions", "ready", "unacked", "spooled", "flows")
    rows = [_summary(view) for view in views]
    if any(view.move is not None for view in views):
        columns, rows = (*columns, "moving"), [(*row, _move_text(view)) for row, view in zip(rows, views, strict=True)]
    print_table(columns, rows)
    elsewhere = client.list_network_queues()
    if elsewhere:
        typer.echo("\nQueues of other brokers:")
        _print_network_queues(elsewhere)


def _print_network_queues(views: Sequence[NetworkQueueView]) -> None:
    columns = ("name", "broker", "access", "partitions", "state")
    print_table(
        columns, [(each.name, each.broker, each.access_type, each.partition_count, _state(each)) for each in views]
    )


def _state(view: NetworkQueueView) -> str:
    """Return what keeps clients of this broker from the queue, or that nothing does."""
    if view.conflict:
        return "conflict: several brokers have a queue of this name"
    reasons = [
        text
        for holds, text in (
            (not view.reachable, "no link"),
            (not view.ingress_enabled, "ingress shut down"),
            (not view.egress_enabled, "egress shut down"),
            (view.full, "full"),
        )
        if holds
    ]
    return ", ".join(reasons) or "ready"


@app.command("show")
def show(
    name: NameArgument, url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False
) -> None:
    """Show one queue with its partitions and flows."""
    view = AdminClient(url, vpn).show_queue(name)
    if as_json:
        print_json(view)
        return
    if view.broker:
        typer.echo(f"at broker {view.broker}\n")
    print_table(("attribute", "value"), [(each, value_text(value)) for each, value in view.config.to_dict().items()])
    typer.echo(
        f"\n{'durable' if view.durable else 'temporary'}; subscriptions: {', '.join(view.subscriptions) or 'none'}"
    )
    if view.definition_lost:
        typer.echo(DEFINITION_LOST)
    if view.move is not None:
        since = "" if view.move.begun_ms == 0 else f" since {time_text(view.move.begun_ms)}"
        typer.echo(f"moving {_move_text(view)}{since}; {printable(view.move.state)}")
    _print_warnings(view)
    typer.echo(
        f"{view.ready_count} ready, {view.unacked_count} unacked, {rounded_size(view.spooled_bytes)} spooled; "
        f"scaling {view.scale_status}, rebalance {view.rebalance_status}\n"
    )
    columns = ("partition", "status", "ready", "unacked", "spooled", "next sequence", "client")
    print_table(columns, [_partition_row(each) for each in view.partitions])
    if view.flows:
        typer.echo("")
        heads = ("flow", "client", "protocol", "activity", "window", "unacked", "partitions", "selector")
        print_table(heads, [_flow_row(each) for each in view.flows])
    if view.config.partitioned() and len({each.selector for each in view.flows}) > 1:
        typer.echo(f"\n{SELECTORS_DIFFER}")
    _print_counts(view)


@app.command("delete")
def delete(
    name: NameArgument,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Delete a queue with all its messages."""
    client = AdminClient(url, vpn)
    if not yes:
        view = client.show_queue(name)
        messages = counted(view.ready_count + view.unacked_count, "message")
        confirm(f"Delete {name} with {messages} and {counted(len(view.flows), 'flow')}?")
    client.delete_queue(name)
    _done({"deleted": name}, f"deleted {name}", as_json)


@app.command("purge")
def purge(
    name: NameArgument,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Remove all messages that are not delivered. Messages that consumers hold stay."""
    client = AdminClient(url, vpn)
    if not yes:
        confirm(f"Remove {counted(client.show_queue(name).ready_count, 'message')} from {name}?")
    count = client.purge_queue(name)
    _done({"purged_count": count}, f"removed {counted(count, 'message')} from {name}", as_json)


@app.command("browse")
def browse(
    name: NameArgument,
    partition: Annotated[
        int | None, typer.Option(min=0, max=PARTITION_COUNT_MAX - 1, help="Only this partition.")
    ] = None,
    after: Annotated[int, typer.Option(min=0, help="Start after this sequence.")] = 0,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            "-n",
            min=1,
            max=1000,
            help="Maximum number of messages. Default: 100, or no limit with --follow.",
        ),
    ] = None,
    selector: SelectorOption = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for new messages and show them.")] = False,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Show messages, oldest first, without removing them. With --json, one object per line."""
    client = AdminClient(url, vpn)
    messages: Iterable[MessageView]
    if follow:
        messages = islice(client.follow_queue(name, partition=partition, after=after, selector=selector), limit)
    else:
        limit = limit or 100
        messages = client.browse_queue(name, partition=partition, after=after, limit=limit, selector=selector)
    at_broker, found = "", False
    for message in messages:
        found = True
        if as_json:
            print_json(message)
            continue
        if message.broker != at_broker:
            at_broker = message.broker
            typer.echo(f"at broker {at_broker}\n")
        _print_message(message)
    if not found:
        typer.echo("no messages", err=True)


@app.command("search")
def search(
    name: NameArgument,
    key: Annotated[str | None, typer.Option("--key", help="Only messages with this partition key.")] = None,
    topic: Annotated[str | None, typer.Option("--topic", help="Only messages whose topic matches this filter.")] = None,
    selector: SelectorOption = None,
    received_from: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Received then or later: 2026-01-31T12:00:00Z.")
    ] = None,
    received_until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Received before.")] = None,
    partition: Annotated[
        int | None, typer.Option(min=0, max=PARTITION_COUNT_MAX - 1, help="Only this partition.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of messages.")] = 100,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Search messages by key, properties, topic and time, without removing them. With --json, one object per line."""
    given = {"key": key, "topic": topic, "selector": selector or None, "partition": partition}
    given |= {"received_from": received_from, "received_until": received_until}
    query: dict[str, str | int] = {each: value for each, value in given.items() if value is not None}
    found = scanned = 0
    for part in _search_parts(AdminClient(url, vpn), name, query, limit):
        found += len(part.messages)
        scanned += part.scanned_count
        for message in part.messages:
            if as_json:
                print_json(message)
            else:
                _print_message(message)
    if not as_json:
        typer.echo(f"{counted(found, 'message')} found, {scanned} examined")


def _search_parts(
    client: AdminClient, name: str, query: Mapping[str, str | int], limit: int
) -> Iterator[MessageSearchView]:
    """Return what is found, request after request, until there are enough messages or no more."""
    position: dict[str, str | int] = {}
    while limit > 0:
        part = client.search_queue(name, {**query, **position, "limit": min(limit, SEARCH_PAGE_MAX)})
        yield part
        limit -= len(part.messages)
        if part.position is None:
            return
        position = {"position": part.position}


@app.command("cursors")
def cursors(
    name: NameArgument,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """List the durable cursors of a queue."""
    views = AdminClient(url, vpn).list_cursors(name)
    if as_json:
        print_json(views)
        return
    columns = ("cursor", "mode", "state", "instance", "epoch", "behind", "bytes behind", "last batch")
    print_table(columns, [_cursor_row(view) for view in views])


@app.command("delete-cursor")
def delete_cursor(
    name: NameArgument,
    cursor: Annotated[str, typer.Argument(metavar="CURSOR", help="Name of the cursor.")],
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    yes: YesOption = False,
) -> None:
    """Delete a durable cursor with its position, and release the messages that the queue keeps for it."""
    if not yes:
        confirm(f"Delete cursor {cursor} of {name}?")
    AdminClient(url, vpn).delete_cursor(name, cursor)
    typer.echo(f"deleted cursor {cursor} of {name}")


add_to(app)
app.command("replay")(replay)
moves.add_to(app)


def _print_message(message: MessageView) -> None:
    key = f" key={message.key}" if message.key is not None else ""
    again = f" deliveries={message.delivery_count}" if message.redelivered else ""
    dead = "" if message.dead is None else f" dead={message.dead.reason} in {message.dead.queue}"
    more = f" of {message.size_bytes} bytes" if message.payload_truncated else ""
    console = Console(soft_wrap=True, highlight=False)
    console.print(printable(f"{message.id} {message.topic}{key}{again}{dead}"), style="bold", markup=False)
    console.print(f"  {printable(message.payload)}", markup=False, end="")
    console.print(f" ({message.payload_encoding}{more})", style="dim", markup=False)


def _print_warnings(view: QueueView) -> None:
    for warning in view.warnings:
        typer.echo(f"warning: {warning}", err=True)


def _print_counts(view: QueueView) -> None:
    """Print what the queue did not take, and what left it without being consumed, by reason."""
    lines = {
        "refused to publishers": view.refusals,
        "dropped, publisher not informed": view.drops,
        "left unconsumed": view.discards,
        "refused binds": view.bind_refusals,
    }
    counted_lines = {title: counts for title, counts in lines.items() if counts}
    if counted_lines:
        typer.echo("")
    for title, counts in counted_lines.items():
        typer.echo(f"{title}: " + ", ".join(f"{count} {reason}" for reason, count in counts.items()))


def _summary(view: QueueView) -> tuple[object, ...]:
    config = view.config
    counts = (config.partition_count, view.ready_count, view.unacked_count)
    access = "definition lost" if view.definition_lost else config.access_type
    return (view.name, access, *counts, rounded_size(view.spooled_bytes), len(view.flows))


def _move_text(view: QueueView) -> str:
    move = view.move
    return "-" if move is None else f"to {move.broker}: {move.moved_count} of {counted(move.total_count, 'message')}"


def _partition_row(view: PartitionView) -> tuple[object, ...]:
    counts = (view.ready_count, view.unacked_count, rounded_size(view.spooled_bytes), view.next_sequence)
    return (view.number, view.status, *counts, view.client or "-")


def _flow_row(view: FlowView) -> tuple[object, ...]:
    partitions = ", ".join(str(number) for number in view.partitions) or "-"
    selector = view.selector or "-"
    return (view.id, view.client, view.protocol, view.activity, view.window, view.unacked_count, partitions, selector)


def _cursor_row(view: CursorView) -> tuple[object, ...]:
    lag = f"{rounded_size(view.lag_bytes)} of {rounded_size(view.lag_bytes_max)}"
    return (view.name, view.mode, view.state, view.instance, view.epoch, view.lag_count, lag, view.batch_ref or "-")


def _partition_text(view: QueueView) -> str:
    return f" with {counted(view.config.partition_count, 'partition')}" if view.config.partitioned() else ""


def attribute_value(text: str) -> tuple[str, AttributeValue]:
    """Return name and value of `ATTRIBUTE=VALUE`. Raises CommandFailed for an unknown name or a value out of range."""
    name, equals, value = text.partition("=")
    attribute = ATTRIBUTE_BY_NAME.get(name)
    if attribute is None or not equals:
        advice = "Attributes: " + ", ".join(ATTRIBUTE_BY_NAME)
        reason = f"{name}: {no_such_attribute(name)}" if equals else f"{text!r} is not ATTRIBUTE=VALUE"
        raise CommandFailed(reason, exit_code=USAGE, advice=advice)
    if attribute.kind == NUMBER and value.isascii() and value.isdigit():
        return name, int(value)
    if attribute.kind == FLAG and value in ("true", "false"):
        return name, value == "true"
    if not attribute.accepts(value):
        raise CommandFailed(f"{name}: {value!r} is not allowed; allowed: {attribute.allowed()}", exit_code=USAGE)
    return name, value


def _done(document: dict[str, object], text: str, as_json: bool) -> None:
    if as_json:
        print_json(document)
    else:
        typer.echo(text)


def value_text(value: object) -> str:
    """Return an attribute's value in the form that `queue set` takes."""
    return str(value).lower() if isinstance(value, bool) else str(value)
