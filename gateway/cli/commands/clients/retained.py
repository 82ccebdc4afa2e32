"""`sluicegate retained ...`: retained messages."""

import base64
import sys
from typing import Annotated, Final

import typer

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, AdminClient, UrlOption, VpnOption
from sluicegate.gateway.cli.terminal.confirmation import confirm
from sluicegate.gateway.cli.terminal.output import (
    AfterOption,
    JsonOption,
    page_query,
    print_json,
    print_page,
    print_table,
    time_text,
)
from sluicegate.gateway.views.clients.retained import RETAINED_DEFAULT, RETAINED_MAX, RetainedMessageView
from sluicegate.messaging.message.vpn import DEFAULT_VPN

app = typer.Typer(help="Retained messages.", no_args_is_help=True)

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="Topic of the message.")]


@app.command("list")
def list_retained(
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="FILTER", help="MQTT topic filter, or pattern: * stands for any characters. Default: all."
        ),
    ] = None,
    after: AfterOption = 0,
    limit: Annotated[
        int, typer.Option(min=1, max=RETAINED_MAX, help="Maximum number of messages to print.")
    ] = RETAINED_DEFAULT,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """List retained messages. Topics that begin with $ are listed only for a filter that does."""
    view = AdminClient(url, vpn).list_retained(page_query(after, limit, topic=topic))
    rows = [_row(each) for each in view.messages]
    print_page(view, COLUMNS, rows, after=after, noun="messages", as_json=as_json)


COLUMNS: Final = ("topic", "bytes", "QoS", "published", "by", "expires")


def _row(view: RetainedMessageView) -> tuple[object, ...]:
    return (view.topic, view.size_bytes, view.qos, time_text(view.published_ms), view.publisher or "-", _expiry(view))


def _expiry(view: RetainedMessageView) -> str:
    return "never" if view.expires_ms is None else time_text(view.expires_ms)


@app.command("show")
def show(
    topic: TopicArgument,
    raw: Annotated[bool, typer.Option("--raw", help="Write the payload alone, byte for byte.")] = False,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Show one retained message with its payload."""
    view = AdminClient(url, vpn).show_retained(topic)
    if raw:
        is_text = view.payload_encoding == "text"
        sys.stdout.buffer.write(view.payload.encode() if is_text else base64.b64decode(view.payload))
        sys.stdout.buffer.flush()
        return
    if as_json:
        print_json(view)
        return
    message = view.message
    rows: list[tuple[str, object]] = [
        ("topic", message.topic),
        ("published", f"{time_text(message.published_ms)} by {message.publisher or '-'}"),
        ("expires", _expiry(message)),
        ("QoS", message.qos),
    ]
    given = (("content type", message.content_type), ("reply to", view.reply_to), ("correlation", view.correlation_id))
    rows += [(name, value) for name, value in given if value is not None]
    rows += [(f"property {name}", value) for name, value in view.user_properties]
    if view.properties_truncated:
        rows.append(("", "of the properties the beginning is shown"))
    how = "" if view.payload_encoding == "text" else ", in base64"
    print_table(("", ""), [*rows, (f"payload ({message.size_bytes} bytes{how})", view.payload)])


@app.command("delete")
def delete(
    topic: TopicArgument,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Delete what is retained on a topic, at linked brokers as well. Subscribers are sent nothing."""
    client = AdminClient(url, vpn)
    if not yes:
        confirm(f"Delete the retained message of {client.show_retained(topic).message.topic}?")
    client.delete_retained(topic)
    if as_json:
        print_json({"deleted": topic})
    else:
        typer.echo(f"deleted the retained message of {topic}")
