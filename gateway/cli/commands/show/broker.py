"""`sluicegate show client|message-spool|message-vpn|queue|rebalance`: connected clients, use of spool and queues.

`sluicegate queue show` prints all details of one queue. Subscriptions are in `gateway.cli.commands.show.show`.
"""

from datetime import timedelta
from typing import Annotated

import typer

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, AdminClient, UrlOption, VpnOption
from sluicegate.gateway.cli.terminal.failures import CommandFailed
from sluicegate.gateway.cli.terminal.output import AfterOption, JsonOption, print_json, print_table, tell_the_rest
from sluicegate.gateway.config.sections.values import rounded_size
from sluicegate.gateway.views.clients.clients import CLIENTS_DEFAULT, CLIENTS_MAX, ClientView
from sluicegate.gateway.views.clients.message_vpns import MessageVpnView
from sluicegate.gateway.views.node.figures import QUEUES_DEFAULT, QUEUES_MAX, QueueFigures
from sluicegate.gateway.views.node.spool import SpoolView
from sluicegate.gateway.views.queues.queues import PartitionView, QueueView, ScaleStatus
from sluicegate.messaging.message.vpn import DEFAULT_VPN


def add_to(app: typer.Typer) -> None:
    """Add these commands to `sluicegate show`."""
    app.command("client")(client)
    app.command("message-spool")(message_spool)
    app.command("message-vpn")(message_vpn)
    app.command("queue")(queue)
    app.command("rebalance")(rebalance)


def client(
    client_name: Annotated[
        str | None,
        typer.Argument(metavar="PATTERN", help="Name; * stands for any characters, ? for one. Default: all."),
    ] = None,
    after: AfterOption = 0,
    limit: Annotated[
        int, typer.Option(min=1, max=CLIENTS_MAX, help="Maximum number of clients to print.")
    ] = CLIENTS_DEFAULT,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Show the connected clients. `show smrp subscriptions` shows their subscriptions."""
    asked: dict[str, str | int] = {"after": after, "limit": limit}
    if client_name:
        asked["client_name"] = client_name
    view = AdminClient(url, vpn).list_clients(asked)
    if as_json:
        print_json(view)
        return
    columns = (
        "client",
        "username",
        "protocol",
        "address",
        "profile",
        "ACL",
        "connected",
        "flows",
        "unacked",
        "reading",
    )
    print_table(columns, [_client_row(each) for each in view.clients])
    tell_the_rest(len(view.clients), view.total_count, after, "clients")


def message_vpn(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Only this message VPN.")] = None,
    url: UrlOption = URL_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Show the message VPNs with their state and usage."""
    views = [each for each in AdminClient(url).list_message_vpns().message_vpns if name in (None, each.name)]
    if name is not None and not views:
        raise CommandFailed(f"message VPN {name!r} does not exist")
    if as_json:
        print_json(views)
        return
    columns = (
        "message VPN",
        "state",
        "clients",
        "queues",
        "subscriptions",
        "sessions",
        "persistent sessions",
        "retained messages",
        "retained size",
        "messages",
        "spool",
    )
    print_table(columns, [_vpn_row(each) for each in views])


def _vpn_row(view: MessageVpnView) -> tuple[object, ...]:
    return (
        view.name,
        "Up" if view.up else "Down",
        view.connection_count,
        view.endpoint_count,
        view.subscription_count,
        view.session_count,
        f"{view.kept_session_count} of {view.max_mqtt_session_count}",
        view.retained_message_count,
        f"{rounded_size(view.retained_message_bytes)} of {rounded_size(view.max_retained_message_bytes)}",
        view.spooled_msg_count,
        f"{rounded_size(view.msg_spool_usage_bytes)} of {rounded_size(view.max_msg_spool_usage_bytes)}",
    )


def message_spool(url: UrlOption = URL_DEFAULT, as_json: JsonOption = False) -> None:
    """Show the usage of the message spool, its limits, and whether it accepts messages."""
    view = AdminClient(url).show_spool()
    if as_json:
        print_json(view)
        return
    print_table(("", "current", "limit"), _spool_rows(view))
    typer.echo(f"\naccepts messages: {_acceptance(view)}")


def _acceptance(view: SpoolView) -> str:
    room = view.messages_bytes_max - view.messages_bytes
    if view.blocked:
        return f"no: {view.blocked}"
    if room <= 0 or view.messages_count >= view.messages_count_max:
        return f"no: {'the usage of' if room <= 0 else 'the number of messages in'} durable queues is at its limit"
    return f"yes, up to {rounded_size(room)} of payload"


def queue(
    name: Annotated[
        str | None,
        typer.Argument(metavar="PATTERN", help="Name; * stands for any characters, ? for one. Default: all."),
    ] = None,
    after: AfterOption = 0,
    limit: Annotated[
        int, typer.Option(min=1, max=QUEUES_MAX, help="Maximum number of queues to print.")
    ] = QUEUES_DEFAULT,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Show queues with their consumers, usage, and totals since the start. `queue show` prints all details of one."""
    view = AdminClient(url, vpn).queues_figures({"name": name or "*", "after": after, "limit": limit})
    if as_json:
        print_json(view)
        return
    columns = (
        "queue",
        "access",
        "partitions",
        "flows",
        "ready",
        "unacked",
        "spooled",
        "accepted",
        "delivered",
        "redelivered",
        "settled",
        "discarded",
        "to DMQ",
        "refused",
        "dropped",
    )
    print_table(columns, [_queue_row(each) for each in view.queues])
    tell_the_rest(len(view.queues), view.total_count, after, "queues")


def _queue_row(view: QueueFigures) -> tuple[object, ...]:
    spooled = rounded_size(view.spooled_bytes)
    if view.quota_bytes:
        spooled = f"{spooled} of {rounded_size(view.quota_bytes)}"
    totals = (view.accepted_total, view.delivered_total, view.redelivered_total, view.settled_total)
    usage = (view.ready_count, view.unacked_count, spooled)
    head = (view.name, view.access_type, view.partition_count, view.flows_count)
    return (*head, *usage, *totals, view.discarded_total, view.to_dmq_total, view.refused_total, view.dropped_total)


def rebalance(
    name: Annotated[str | None, typer.Argument(metavar="QUEUE", help="Only this queue.")] = None,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Show the consumers of the partitions of partitioned queues, and the partitions that are moving."""
    client = AdminClient(url, vpn)
    names = [name] if name is not None else [each.name for each in client.list_queues() if _has_partitions(each)]
    partitioned = [client.show_queue(each) for each in names]
    if as_json:
        print_json([_rebalance_document(view) for view in partitioned])
        return
    columns = ("queue", "rebalance", "scaling", "partition", "status", "client", "epoch", "ready", "unacked", "held")
    print_table(columns, [_partition_row(view, each) for view in partitioned for each in view.partitions])


def _client_row(view: ClientView) -> tuple[object, ...]:
    head = (view.name, view.client_username or "-", view.protocol, view.address, view.client_profile, view.acl_profile)
    reading = "paused" if view.is_paused else "yes"
    return (*head, str(timedelta(seconds=view.connected_s)), view.flows_count, view.unacked_count, reading)


def _spool_rows(view: SpoolView) -> list[tuple[object, ...]]:
    sizes = (
        ("map used", view.used_bytes, view.limit_bytes),
        ("usage of durable queues", view.messages_bytes, view.messages_bytes_max),
        ("messages in memory", view.memory_bytes, view.memory_bytes_max),
    )
    counts = (
        ("messages in durable queues", view.messages_count, view.messages_count_max),
        ("delivered, unsettled messages", view.unacked_count, view.unacked_count_max),
    )
    others = (
        ("data file and log", rounded_size(view.file_bytes)),
        ("free disk space", rounded_size(view.disk_free_bytes)),
        ("log", rounded_size(view.log_bytes)),
        ("records in the log", view.journal_records),
        ("pages", view.pages),
        ("quarantined records", view.quarantined),
        ("open transactions", view.transactions_open),
        ("staged by transactions", rounded_size(view.staged_bytes)),
        ("incarnation", view.incarnation),
    )
    bounded = [(what, rounded_size(now), rounded_size(most)) for what, now, most in sizes]
    return [*bounded, *counts, *[(what, value, "") for what, value in others]]


def _has_partitions(view: QueueView) -> bool:
    """Return whether a queue is partitioned, or is changing its number of partitions."""
    return view.config.partitioned() or view.scale_status != ScaleStatus.READY


def _rebalance_document(view: QueueView) -> dict[str, object]:
    return {
        "queue": view.name,
        "rebalance_status": view.rebalance_status,
        "scale_status": view.scale_status,
        "partition_count": view.config.partition_count,
        "partition_operational_count": view.partition_operational_count,
        "partitions": view.partitions,
    }


def _partition_row(view: QueueView, each: PartitionView) -> tuple[object, ...]:
    counts = (each.assignment_epoch, each.ready_count, each.unacked_count, each.held_count)
    return (view.name, view.rebalance_status, view.scale_status, each.number, each.status, each.client or "-", *counts)
