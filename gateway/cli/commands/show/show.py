"""`sluicegate show ...`: the state of a node, under the names of the Solace CLI."""

from typing import Annotated

import typer

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, AdminClient, UrlOption, VpnOption
from sluicegate.gateway.cli.commands.show import broker as show_broker
from sluicegate.gateway.cli.terminal.output import (
    AfterOption,
    JsonOption,
    page_query,
    print_json,
    print_table,
    tell_the_rest,
)
from sluicegate.gateway.views.clients.subscriptions import ROWS_DEFAULT, ROWS_MAX, SmrpSubscriptionView
from sluicegate.messaging.message.vpn import DEFAULT_VPN

app = typer.Typer(help="Show the state of a node, under the names of the Solace CLI.", no_args_is_help=True)
smrp = typer.Typer(help="Subscriptions of clients and queues.", no_args_is_help=True)
app.add_typer(smrp, name="smrp")
show_broker.add_to(app)

LEGEND = """Flags Legend:
T - Destination Type (C=local client, Q=local queue, R=remote router)
P - Persistence (P=persistent, N=non-persistent)
R - Redundancy Type (P=primary, B=backup, S=static, -=not applicable)
"""


@app.command("rest-delivery-point")
def rest_delivery_point(
    url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False
) -> None:
    """Show the REST delivery points with their queues and web servers, and the reason if one is down."""
    from sluicegate.gateway.cli.admin.objects import (
        AdminObjects,  # late: no other command here needs its imports
    )

    view = AdminObjects(url, vpn).rest_delivery_points()
    if as_json:
        print_json(view)
        return
    rows: list[tuple[object, ...]] = []
    for point in view.rest_delivery_points:
        state = "Up" if point.up else "Down" if point.enabled else "Disabled"
        rows.append((point.name, "point", f"({point.origin})", state, point.reason, ""))
        for binding in point.queue_bindings:
            rows.append((point.name, "queue", binding.queue, *_state(binding.up, binding.reason, binding.messages)))
        for consumer in point.rest_consumers:
            rows.append(
                (point.name, "consumer", consumer.url, *_state(consumer.up, consumer.reason, consumer.requests))
            )
    print_table(("RDP", "Part", "Name", "State", "Reason", "Counts"), rows)


@app.command("links")
def links(url: UrlOption = URL_DEFAULT, as_json: JsonOption = False) -> None:
    """Show the links to other brokers of the network, and the reason if one is down."""
    from sluicegate.gateway.cli.admin.objects import AdminObjects  # late: no other command here needs its imports

    view = AdminObjects(url).links()
    if as_json:
        print_json(view)
        return
    typer.echo(f"Broker : {view.broker} (network: {view.network})\n")
    rows: list[tuple[object, ...]] = []
    for link in view.links:
        state = "Up" if link.up else "Down" if link.enabled else "Disabled"
        about = link.remote_address if link.up else link.reason
        received = sum(each.messages_received for each in link.message_vpns)
        exported = sum(each.exported_count for each in link.message_vpns)
        imported = sum(each.imported_count for each in link.message_vpns)
        names = ", ".join(each.vpn_name for each in link.message_vpns)
        backlog = sum(each.queued_count for each in link.message_vpns)
        figures = (exported, imported, link.messages_sent, received, link.messages_dropped, backlog)
        rows.append((link.name, f"({link.origin})", state, about, names, *figures))
    columns = ("Neighbor", "Origin", "State", "Address or Reason", "VPNs")
    print_table((*columns, "Exported", "Imported", "Sent", "Received", "Dropped", "Backlog"), rows)
    for missing in view.missing_links:
        neighbors = ", ".join(missing.linked_neighbors)
        typer.echo(f"missing: a link to {missing.name} in message VPN {missing.vpn_name}; linked to it: {neighbors}")
    for reason, count in sorted(view.refusals.items()):
        typer.echo(f"refused without a link: {reason} {count}")


@app.command("bridge")
def bridge(url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False) -> None:
    """Show the bridges to foreign brokers with their rules, and the reason if one is down."""
    from sluicegate.gateway.cli.admin.objects import AdminObjects  # late, as above

    view = AdminObjects(url, vpn).bridges()
    if as_json:
        print_json(view)
        return
    rows: list[tuple[object, ...]] = []
    for each in view.bridges:
        state = "Up" if each.up else each.state.capitalize() if each.enabled else "Disabled"
        unmatched = f"unmatched {each.unmatched}" if each.unmatched else ""
        rows.append((each.name, "bridge", each.remote_url, f"({each.origin})", state, each.reason, unmatched))
        for rule in each.rules:
            counts = {"messages": rule.messages, "unconfirmed": rule.unconfirmed, "failures": rule.failures}
            counts["lowered"] = rule.lowered
            shown = {name: count for name, count in (counts | rule.dropped).items() if count}
            rows.append(
                (
                    each.name,
                    rule.direction,
                    rule.source,
                    rule.target,
                    *_state(rule.up, rule.reason or rule.shortfall, shown),
                )
            )
    print_table(("Bridge", "Part", "From", "To", "State", "Reason", "Counts"), rows)


def _state(up: bool, reason: str, counts: dict[str, int]) -> tuple[str, str, str]:
    return "Up" if up else "Down", reason, ", ".join([f"{name} {count}" for name, count in sorted(counts.items())])


@smrp.command("subscriptions")
def subscriptions(
    vpn_name: Annotated[
        str, typer.Option(metavar="PATTERN", help="Message VPN; * stands for any characters, ? for one.")
    ] = "*",
    destination_name: Annotated[str, typer.Option(metavar="PATTERN", help="Name of the client or queue.")] = "*",
    topic: Annotated[str, typer.Option(metavar="TOPIC", help="Only subscriptions that match this topic.")] = "",
    topic_str: Annotated[str, typer.Option(metavar="PATTERN", help="Text of the subscription.")] = "*",
    primary: Annotated[
        bool, typer.Option("--primary", help="Only subscriptions of the primary virtual router; on this node, all are.")
    ] = False,
    after: AfterOption = 0,
    limit: Annotated[int, typer.Option(min=1, max=ROWS_MAX, help="Maximum number of rows to print.")] = ROWS_DEFAULT,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Show subscriptions by destination, with the Deliver-To-One priority."""
    wanted = {"vpn_name": vpn_name, "destination_name": destination_name, "topic_str": topic_str, "topic": topic}
    asked = page_query(after, limit, **wanted)
    view = AdminClient(url, vpn).smrp_subscriptions(asked)
    if as_json:
        print_json(view)
        return
    exported = "Yes" if view.exported else "No"
    typer.echo(LEGEND)
    typer.echo(f"Message VPN : {view.vpn_name} (exported: {exported}; {view.complete_percent}% complete)\n")
    columns = ("Destination Name", "Flags T P R", "BlkID", "DTO Prio", "Subscription")
    print_table(columns, [_row(each) for each in view.subscriptions])
    tell_the_rest(len(view.subscriptions), view.total_count, after, "subscriptions")


def _row(view: SmrpSubscriptionView) -> tuple[object, ...]:
    flags = f"      {view.destination_type} {view.persistence} {view.redundancy}"
    block = "-" if view.block_id is None else view.block_id
    return (view.destination_name, flags, block, view.dto_priority, view.subscription)
