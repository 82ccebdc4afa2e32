"""`sluicegate client ...`: connected clients, and what each has subscribed to. `client list` is `show client`."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import typer
from rich.console import Console

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, AdminClient, UrlOption, VpnOption
from sluicegate.gateway.cli.commands.show import broker
from sluicegate.gateway.cli.terminal.output import (
    AfterOption,
    JsonOption,
    page_query,
    print_json,
    print_page,
    print_table,
    time_text,
)
from sluicegate.gateway.views.clients.connections import (
    SUBSCRIPTIONS_DEFAULT,
    SUBSCRIPTIONS_MAX,
    AmqpLinkView,
    ClientFlowView,
    ClientSubscriptionView,
    ConnectionView,
    FlowPublisherView,
    MqttConnectionView,
    WillView,
)
from sluicegate.gateway.views.clients.traces import PAYLOAD_BYTES_MAX, TracedPacket
from sluicegate.gateway.views.text import counted, printable
from sluicegate.messaging.message.vpn import DEFAULT_VPN

app = typer.Typer(help="Connected clients.", no_args_is_help=True)
app.command("list")(broker.client)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the client.")]
Rows = list[tuple[str, object]]
NEVER: Final = "never"


@app.command("show")
def show_client(
    name: NameArgument, url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False
) -> None:
    """Show one client: its connections, what its protocol has agreed on, its flows and links."""
    view = AdminClient(url, vpn).show_client(name)
    if as_json:
        print_json(view)
        return
    with_flows: set[tuple[str, str]] = set()  # all connections of a protocol at a broker have the same ones
    for number, each in enumerate(view.connections):
        if number:
            typer.echo("")
        print_table(("", ""), _rows(each))
        owner = (each.broker, each.client.protocol)
        _print_parts(each, flows=() if owner in with_flows else each.flows)
        with_flows.add(owner)


def _rows(view: ConnectionView) -> Rows:
    client = view.client
    rows: Rows = [("client", client.name)]
    if view.broker:
        rows.append(("broker", view.broker))
    transport = ("TLS" if view.tls else "TCP") + (f", WebSocket ({view.websocket})" if view.websocket else "")
    rows += [
        ("protocol", f"{client.protocol} {view.protocol_version}"),
        ("address", client.address),
        ("listener", f"{view.listener} ({transport})"),
        ("connected", f"{time_text(view.connected_ms)}, for {timedelta(seconds=client.connected_s)}"),
        ("user name", client.client_username or "-"),
        ("client profile", client.client_profile),
        ("ACL profile", client.acl_profile),
        ("reading", "paused" if client.is_paused else "yes"),
        ("slow", "yes: it reads more slowly than is written" if view.is_slow else "no"),
        ("unread", f"{view.unread_bytes} bytes"),
        ("dropped", counted(view.dropped_count, "message")),
        ("received", f"{counted(client.messages_received, 'message')}, {client.bytes_received} bytes"),
        ("sent", f"{counted(client.messages_sent, 'message')}, {client.bytes_sent} bytes"),
        ("unacknowledged", client.unacked_count),
    ]
    if view.certificate_name is not None:
        rows.append(("certificate", view.certificate_name))
    if view.mqtt is not None:
        rows += _mqtt_rows(view.mqtt)
    if view.amqp is not None:
        rows += [
            ("frame size", view.amqp.max_frame_size),
            ("heartbeat", f"{view.amqp.heartbeat_ms} ms" if view.amqp.heartbeat_ms else "off"),
            ("sessions", view.amqp.sessions_count),
        ]
    if view.flow is not None:
        rows += [
            ("keep alive", f"{view.flow.keep_alive_ms} ms"),
            ("compression", "yes" if view.flow.compresses else "no"),
        ]
    return rows


def _mqtt_rows(view: MqttConnectionView) -> Rows:
    return [
        ("clean start", "yes" if view.clean_start else "no"),
        ("session expiry", seconds_text(view.session_expiry_s)),
        ("keep alive", f"{view.keep_alive_s} s" if view.keep_alive_s else "off"),
        ("receive maximum", view.receive_maximum),
        (
            "packet size",
            "no limit" if view.maximum_packet_size is None else f"at most {view.maximum_packet_size} bytes",
        ),
        ("topic aliases", view.topic_alias_maximum),
        ("will", will_text(view.will)),
    ]


def seconds_text(expiry_s: int | None) -> str:
    """Return the expiry of a session in words."""
    if expiry_s is None:
        return NEVER
    return f"{expiry_s} s" if expiry_s else "with the connection"


def will_text(will: WillView | None) -> str:
    """Return a will in words."""
    if will is None:
        return "none"
    delay = f", {will.delay_s} s later" if will.delay_s else ""
    return f"{will.topic}: {will.size_bytes} bytes, QoS {will.qos}{', retained' if will.retain else ''}{delay}"


FLOW_COLUMNS: Final = ("queue", "activity", "window", "unacked", "partitions", "selector")
LINK_COLUMNS: Final = ("link", "role", "address", "state", "credit", "deliveries", "settlement")
PUBLISHER_COLUMNS: Final = ("publisher", "epoch", "window", "received through", "answered through", "unanswered")


def _print_parts(view: ConnectionView, *, flows: Sequence[ClientFlowView]) -> None:
    """Print the tables of what there may be several of."""
    parts: list[tuple[tuple[str, ...], list[tuple[object, ...]]]] = [
        (FLOW_COLUMNS, [_flow_row(each) for each in flows])
    ]
    if view.amqp is not None:
        parts.append((LINK_COLUMNS, [_link_row(each) for each in view.amqp.links]))
    if view.flow is not None:
        parts.append((PUBLISHER_COLUMNS, [_publisher_row(each) for each in view.flow.publishers]))
    for columns, rows in parts:
        if rows:
            typer.echo("")
            print_table(columns, rows)


def _flow_row(view: ClientFlowView) -> tuple[object, ...]:
    flow = view.flow
    partitions = ",".join(map(str, flow.partitions)) or "-"
    return (view.queue, flow.activity, flow.window, flow.unacked_count, partitions, flow.selector or "-")


def _link_row(view: AmqpLinkView) -> tuple[object, ...]:
    counts = (view.credit, view.delivery_count)
    return (view.name, view.role, view.address or "-", view.state, *counts, view.settle_mode)


def _publisher_row(view: FlowPublisherView) -> tuple[object, ...]:
    name = view.name or f"anonymous {view.id}"
    return (name, view.epoch, view.window, view.received_through, view.answered_through, view.unanswered_count)


@app.command("disconnect")
def disconnect(
    name: NameArgument, url: UrlOption = URL_DEFAULT, vpn: VpnOption = DEFAULT_VPN, as_json: JsonOption = False
) -> None:
    """Disconnect a client from all protocols. It may connect again; `user disable` keeps it out."""
    AdminClient(url, vpn).disconnect_client(name)
    if as_json:
        print_json({"disconnected": name})
    else:
        typer.echo(f"disconnected {name}")


@app.command("trace")
def trace(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Name of the client.")] = None,
    username: Annotated[
        str | None,
        typer.Option("--username", metavar="NAME", help="Instead of a client, all of a user; '': those without one."),
    ] = None,
    payload: Annotated[
        int, typer.Option("--payload", min=0, max=PAYLOAD_BYTES_MAX, help="Bytes of each payload to print.")
    ] = 0,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Print the packets, frames or HTTP messages of a client as they pass, until Ctrl-C is pressed.

    With --json, one object per line. `in` is from the client, `out` to it. Passwords are never shown.

    With --username, each line names its client, and connections that begin later are followed, too.
    """
    if (name is None) == (username is None):
        raise typer.BadParameter("give the name of a client, or --username")
    if name == "":
        raise typer.BadParameter("the name of a client is not empty; --username '' follows clients without a username")
    gateway = AdminClient(url, vpn)
    packets = gateway.trace_username(username or "", payload) if name is None else gateway.trace_client(name, payload)
    console = Console(soft_wrap=True, highlight=False)
    try:
        for packet in packets:
            if as_json:
                print_json(packet)
            else:
                client = "" if username is None else f"{packet.client} "
                console.print(printable(_packet_line(packet, client)), markup=False)
    except KeyboardInterrupt:
        return


DIRECTIONS: Final = {"received": "in ", "sent": "out", "connection": "---"}


def _packet_line(packet: TracedPacket, client: str) -> str:
    moment = datetime.fromtimestamp(packet.time_ms / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
    parts = [moment, client + DIRECTIONS[packet.direction], f"{packet.kind:<11}"]
    if packet.left_out_count:
        parts.insert(1, f"({packet.left_out_count} left out)")
    if packet.direction == "connection":
        return " ".join([*parts, packet.address])
    parts.append(f"{packet.size_bytes} B")
    parts += [f"{key}={_shown(value)}" for key, value in packet.fields.items() if value is not None]
    if packet.reason_code is not None:
        parts.append(f"0x{packet.reason_code:02x} {packet.reason or ''}".rstrip())
    elif packet.reason is not None:
        parts.append(packet.reason)
    parts += [f"[{key}: {value}]" for key, value in packet.properties]
    if packet.payload is not None:
        parts.append(f"payload={packet.payload!r}{' (base64)' if packet.payload_encoding == 'base64' else ''}")
    return " ".join(parts)


def _shown(value: str | int | bool) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return repr(value) if isinstance(value, str) else str(value)


@app.command("subscriptions")
def subscriptions(
    name: NameArgument,
    pattern: Annotated[
        str | None,
        typer.Argument(metavar="PATTERN", help="Subscription; * stands for any characters, ? for one. Default: all."),
    ] = None,
    after: AfterOption = 0,
    limit: Annotated[
        int, typer.Option(min=1, max=SUBSCRIPTIONS_MAX, help="Maximum number of subscriptions to print.")
    ] = SUBSCRIPTIONS_DEFAULT,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Show the subscriptions of one client, connected or with a session, with the options of MQTT."""
    view = AdminClient(url, vpn).client_subscriptions(name, page_query(after, limit, topic_str=pattern))
    rows = [_subscription_row(each) for each in view.subscriptions]
    print_page(view, SUBSCRIPTION_COLUMNS, rows, after=after, noun="subscriptions", as_json=as_json)


SUBSCRIPTION_COLUMNS: Final = ("subscription", "QoS", "options", "identifier", "priority", "selector", "queue")


def _subscription_row(view: ClientSubscriptionView) -> tuple[object, ...]:
    options = ["no local"] if view.no_local else []
    options += ["retain as published"] if view.retain_as_published else []
    options += [f"retain handling {view.retain_handling}"] if view.retain_handling else []
    return (
        view.subscription,
        "-" if view.qos is None else view.qos,
        ", ".join(options) or "-",
        "-" if view.identifier is None else view.identifier,
        view.dto_priority,
        view.selector or "-",
        view.queue or "-",
    )
