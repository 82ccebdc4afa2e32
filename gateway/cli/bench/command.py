"""`sluicegate bench`: load on a running gateway, through a queue made for it, with everything that arrives checked."""

import asyncio
import secrets
from dataclasses import asdict, dataclass
from typing import Annotated, Final

import typer

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, AdminClient, UrlOption, VpnOption
from sluicegate.gateway.cli.bench.figures import PAYLOAD_BYTES_MIN
from sluicegate.gateway.cli.bench.load import Load, Run
from sluicegate.gateway.cli.commands.mqtt.session import PasswordOption, UserOption
from sluicegate.gateway.cli.terminal.failures import FAILED, UNREACHABLE, CommandFailed
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json, print_table
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.protocols.flow.client.errors import ConnectFailed, FlowClientError
from sluicegate.protocols.flow.client.options import PORT_DEFAULT, ClientOptions, target_of

PERCENTS: Final = (50.0, 90.0, 99.0, 99.9)
QUEUE_PREFIX: Final = "sluicegate-bench-"
SIZE_MAX: Final = 16 << 20
WAIT_S: Final = 10.0  # without news
GIVE_UP_S: Final = 5.0  # without a connection: it is a gateway that runs which is measured
EXPIRES_S: Final = 60  # without a consumer, for a queue that this command cannot delete any more


@dataclass(frozen=True, slots=True)
class Figures:
    """What a run came to."""

    sent_per_s: float  # confirmed messages by the time until the last confirmation
    received_per_s: float
    confirmed: int
    refused: int
    received: int
    lost: int  # confirmed, and not received
    duplicates: int
    out_of_order: int  # behind a later message of their key
    latency_ms: dict[str, float]  # from when it was due until a consumer had it


def bench(
    rate: Annotated[
        int, typer.Option("--rate", "-r", min=0, help="Messages a second in all; 0: what it takes.")
    ] = 1000,
    duration_s: Annotated[float, typer.Option("--duration", "-d", min=0.1, max=86_400, help="Seconds.")] = 10.0,
    size: Annotated[
        int, typer.Option("--size", "-s", min=PAYLOAD_BYTES_MIN, max=SIZE_MAX, help="Bytes of a payload.")
    ] = 100,
    keys: Annotated[int, typer.Option("--keys", "-k", min=1, max=1_000_000, help="Partition keys.")] = 100,
    partitions: Annotated[
        int, typer.Option("--partitions", min=0, max=1000, help="Of the queue; 0: one consumer at a time gets all.")
    ] = 8,
    publishers: Annotated[int, typer.Option("--publishers", min=1, max=1000, help="Connections that publish.")] = 1,
    consumers: Annotated[int, typer.Option("--consumers", min=1, max=1000, help="Connections that consume.")] = 1,
    flow_url: Annotated[
        str, typer.Option("--flow-url", help="The flow protocol: flow://HOST[:PORT], flows:// for TLS.")
    ] = f"flow://localhost:{PORT_DEFAULT}",
    url: UrlOption = URL_DEFAULT,
    vpn: VpnOption = DEFAULT_VPN,
    username: UserOption = None,
    password: PasswordOption = None,
    as_json: JsonOption = False,
) -> None:
    """Publish and consume at a rate, and check that all of it came, once and in order. The queue is removed again."""
    load = Load(
        rate=rate,
        duration_s=duration_s,
        size_bytes=size,
        keys_count=keys,
        publishers_count=publishers,
        consumers_count=consumers,
        wait_s=WAIT_S,
    )
    options = _options(flow_url, username or "", password or "", "" if vpn == DEFAULT_VPN else vpn)
    run = secrets.randbits(63)
    queue = f"{QUEUE_PREFIX}{run:016x}"
    admin = AdminClient(url, vpn)
    access = {"access_type": "non-exclusive", "partition_count": partitions} if partitions else {}
    admin.create_queue({"name": queue, "owner": username or "", "expires_unbound_s": EXPIRES_S, **access})
    played = Run(load, url=flow_url, options=options, queue=queue, run=run, on_lost=_tell_lost)
    try:
        _play(played)
    finally:
        _delete(admin, queue)
    figures = _figures(played)
    if as_json:
        print_json(asdict(figures))
    else:
        _print(figures)
    if figures.lost or figures.out_of_order or figures.refused:
        refusal = f": {played.refusal}" if played.refusal else ""
        text = f"{figures.lost} messages lost, {figures.out_of_order} out of order, {figures.refused} refused{refusal}"
        raise CommandFailed(text, exit_code=FAILED)


def _options(flow_url: str, user: str, password: str, vpn: str) -> ClientOptions:
    try:
        target_of(flow_url)
        return ClientOptions(user=user, password=password, vpn=vpn, give_up_after_s=GIVE_UP_S)
    except ValueError as wrong:
        raise typer.BadParameter(str(wrong)) from None


def _play(run: Run) -> None:
    try:
        asyncio.run(run.play())
    except ConnectFailed as failed:
        advice = "Is it running (`sluicegate serve`)? Another address: --flow-url."
        raise CommandFailed(str(failed), exit_code=UNREACHABLE, advice=advice) from None
    except FlowClientError as failed:
        raise CommandFailed(str(failed), exit_code=FAILED) from None


def _tell_lost(reason: str) -> None:
    typer.echo(f"a connection is lost: {reason}; waiting {GIVE_UP_S:g} s for the gateway", err=True)


def _delete(admin: AdminClient, queue: str) -> None:
    """Delete the queue, or say what becomes of it: why the run has failed, if it has, is the command's own failure."""
    try:
        admin.delete_queue(queue)
    except CommandFailed as failed:
        typer.echo(f"{queue} is left, and deleted when it was without a consumer for {EXPIRES_S} s: {failed}", err=True)


def _figures(played: Run) -> Figures:
    tally, latencies = played.tally, played.latencies
    shown = {f"p{percent:g}": round(latencies.percentile_ms(percent), 3) for percent in PERCENTS}
    return Figures(
        sent_per_s=round(played.confirmed_count / max(played.published_s, 1e-9), 1),
        received_per_s=round(tally.received_count / max(played.consumed_s, 1e-9), 1),
        confirmed=played.confirmed_count,
        refused=played.refused_count,
        received=tally.received_count,
        lost=max(0, played.confirmed_count - tally.received_count),
        duplicates=tally.duplicate_count,
        out_of_order=tally.out_of_order_count,
        latency_ms={**shown, "max": round(latencies.max_ns / 1e6, 3)},
    )


def _print(figures: Figures) -> None:
    print_table(
        ("", "messages", "per second"),
        (
            ("confirmed", figures.confirmed, figures.sent_per_s),
            ("received", figures.received, figures.received_per_s),
        ),
    )
    typer.echo(f"lost {figures.lost}, duplicates {figures.duplicates}, out of order {figures.out_of_order}")
    typer.echo("latency " + "  ".join(f"{name} {value:g} ms" for name, value in figures.latency_ms.items()))
