"""`sluicegate explain ...`: how the gateway would route a message, and why the messages of a key wait."""

from typing import Annotated

import orjson
import typer
from rich.console import Console

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, AdminClient, UrlOption, VpnOption
from sluicegate.gateway.cli.terminal.failures import USAGE, CommandFailed
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json, print_table
from sluicegate.gateway.views.queues.explanations import CheckView, DestinationView
from sluicegate.gateway.views.text import counted, printable
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.partitions.explain import WaitReason

app = typer.Typer(help="Explain where messages go and why they wait.", no_args_is_help=True)


REASONS = {
    WaitReason.NOTHING_WAITS: "no message of the key waits: there is none, or a consumer has all of them",
    WaitReason.NOT_EXAMINED: "no message of the key waits in memory; the messages on disk may have the key, or not",
    WaitReason.NO_CONSUMER: "no consumer is bound",
    WaitReason.HOLDDOWN: "the consumer of the partition left, and the rebalance delay is running",
    WaitReason.HANDOFF: "the partition moves to another consumer once the former one has settled its messages",
    WaitReason.SOCKET_SHUT: "the consumer does not read its connection, or the window of its AMQP session is used up",
    WaitReason.WINDOW_FULL: "the consumer holds as many unsettled messages as it accepts (Receive Maximum, credit)",
    WaitReason.UNACKED_MAX: "the consumer holds max_delivered_unacked_msgs_per_flow messages",
    WaitReason.NODE_UNACKED_MAX: "all consumers together hold limits.delivered_unacked_max messages",
    WaitReason.NOT_STORED: "the message is being written to disk, and the queue has deliver_after_commit",
    WaitReason.DELAYED: "the delivery time of the message is in the future",
    WaitReason.REDELIVERY_DELAY: "the message failed, and its redelivery delay is running",
    WaitReason.BEHIND_A_FAILED_ONE: "an earlier message of the key failed and waits for its redelivery",
    WaitReason.RESCALE: "a rescale holds the message: older messages in the former partition of its key are unsettled",
    WaitReason.LEAVING: "the message is being moved to another queue",
    WaitReason.GROUP_BUSY: "the consumer of its message group accepts no more, or the group moves to another consumer",
    WaitReason.ON_DISK: "the message is in a page on disk, and is loaded when its turn comes",
    WaitReason.NOT_SELECTED: "no bound consumer has a selector that matches the message",
    WaitReason.NOT_SELECTED_BY_OWNER: (
        "the owner of the partition does not select the message; other consumers, whose selectors differ, do not get it"
    ),
    WaitReason.BEHIND_OTHERS: "earlier messages are delivered first",
}

UsernameOption = Annotated[
    str | None,
    typer.Option(
        "--username", "-u", help="User name of the publisher. Default: that of the connected client with --client-id."
    ),
]


@app.command("publish")
def publish(
    topic: Annotated[
        str | None, typer.Argument(metavar="TOPIC", help="Topic of the message; omit it with --queue.")
    ] = None,
    queue: Annotated[str | None, typer.Option(help="Send the message to this queue instead of a topic.")] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="Partition key.")] = None,
    client_id: Annotated[str | None, typer.Option("--client-id", "-i", help="Client ID of the publisher.")] = None,
    username: UsernameOption = None,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", "-P", metavar="NAME=VALUE", help="User property, as JSON or text; repeatable."),
    ] = None,
    size: Annotated[int, typer.Option(min=0, help="Size of the payload in bytes.")] = 0,
    qos: Annotated[int, typer.Option(min=0, max=2, help="Quality of service; 0 is a direct message.")] = 1,
    priority: Annotated[int, typer.Option(min=0, max=9, help="Priority; below 4 is low.")] = 4,
    deliver_to_one: Annotated[bool, typer.Option("--deliver-to-one", help="Deliver to one subscriber only.")] = False,
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Show where a message would go, its partition, and the result of each check. Nothing is published."""
    if (topic is None) == (queue is None):
        raise CommandFailed("give either a TOPIC, or a queue with --queue", exit_code=USAGE)
    answer = AdminClient(url, vpn).explain_publish(
        topic=topic,
        queue=queue,
        key=key,
        client_id=client_id,
        client_username=username,
        properties=_properties(properties or []),
        size=size,
        qos=qos,
        priority=priority,
        deliver_to_one=deliver_to_one,
    )
    if as_json:
        print_json(answer)
        return
    because = f": {answer.reason}" if answer.reason else ""
    _print(f"{answer.verdict}{because}")
    if answer.publisher:
        _print(f"published as {answer.publisher}")
    if answer.retained_now:
        _print(f"{answer.topic} has a retained message")
    if answer.destinations:
        typer.echo("")
        print_table(
            ("to", "name", "filter", "verdict", "partition", "why"), [_row(each) for each in answer.destinations]
        )
    for destination in answer.destinations:
        if destination.checks:
            typer.echo("")
            _print(f"checks of {destination.queue}")
            columns = ("check", "usage", "adds", "limit", "unit", "verdict")
            print_table(columns, [_check_row(each) for each in destination.checks])


@app.command("key")
def key_command(
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="Name of the queue.")],
    key: Annotated[str, typer.Argument(metavar="KEY", help="Partition key.")],
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    as_json: JsonOption = False,
) -> None:
    """Show the partition of a key, who consumes it, and why its messages wait."""
    answer = AdminClient(url, vpn).explain_key(queue=queue, key=key)
    if as_json:
        print_json(answer)
        return
    rows: list[tuple[str, object]] = [("broker", answer.broker)] if answer.broker else []
    rows += [
        ("partition", f"{answer.partition} (hash 0x{answer.key_hash:04x}), {answer.partition_status}"),
        ("consumer", f"{answer.client} (flow {answer.flow_id})" if answer.flow_id else "-"),
        ("waiting", answer.waiting_count),
        ("with a consumer", answer.in_flight_count),
        ("oldest waiting", answer.first_waiting or "-"),
        ("why", f"{answer.reason}: {REASONS[answer.reason]}"),
    ]
    if answer.unseen_count:
        rows.append(("not examined", f"{counted(answer.unseen_count, 'message')} of the partition"))
    print_table(("", ""), rows)
    if answer.unseen_count:
        of_key = "JMSXGroupID = '" + key.replace("'", "''") + "'"
        _print(f'\n`sluicegate queue browse {queue} --selector "{of_key}"` examines all messages.')


def _properties(given: list[str]) -> str | None:
    """Return user properties as a JSON object. A value that is not JSON is a text."""
    properties: dict[str, object] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise CommandFailed(f"{text!r} is not NAME=VALUE", exit_code=USAGE)
        try:
            properties[name] = orjson.loads(value)
        except orjson.JSONDecodeError:
            properties[name] = value
    return orjson.dumps(properties).decode() if properties else None


def _row(view: DestinationView) -> tuple[object, ...]:
    partition = "-" if view.partition is None else view.partition
    why = view.reason or view.partition_reason
    return (view.kind, view.name, view.filter or "-", view.verdict, partition, why)


def _check_row(view: CheckView) -> tuple[object, ...]:
    limit = "-" if view.limit is None else str(view.limit)
    verdict = "ok" if not view.refused else "refused" if view.publisher_hears else "dropped here"
    return (view.check, view.usage, view.adds, limit, view.unit, verdict)


def _print(text: str) -> None:
    Console(soft_wrap=True, highlight=False).print(printable(text), markup=False)
