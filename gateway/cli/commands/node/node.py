"""Commands for a node on this machine: run it, check its configuration, hash a password for it."""

import gc
import importlib.util
import os
import secrets
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from argon2 import PasswordHasher

from sluicegate.gateway.cli.terminal.credentials import new_password
from sluicegate.gateway.cli.terminal.failures import USAGE, CommandFailed
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json
from sluicegate.gateway.config.allowed import allowed_by, is_secret, leaves, shown
from sluicegate.gateway.config.document import ConfigError, ConfigUnreadable
from sluicegate.gateway.config.load import load
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.config.sections.message_vpns.message_vpns import vpn_setting
from sluicegate.gateway.config.settings.virtual_doubles import doubled_messages
from sluicegate.gateway.views.errors import CannotStart
from sluicegate.protocols.security.scram import ITERATIONS_MAX, ITERATIONS_MIN, NAME, NAME_512, stored_text

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", envvar="SLUICEGATE_CONFIG", help="Configuration file (YAML). Default: built-in settings."
    ),
]
DataOption = Annotated[
    Path | None, typer.Option("--data", help="Data folder, which holds the spool; same as --set data.path=DIR.")
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Override one setting; repeatable.")
]


BrokersOption = Annotated[
    str | None,
    typer.Option(
        "--brokers",
        metavar="COUNT",
        help="Broker processes that serve this machine as one, or `auto`: one for each processor; same as --set "
        "brokers=COUNT.",
    ),
]


def serve(
    config: ConfigOption = None,
    data: DataOption = None,
    brokers: BrokersOption = None,
    settings: SetOption = None,
) -> None:
    """Run the gateway in the foreground until SIGTERM or Ctrl-C."""
    # A SIGHUP during the start must not end the process: `run` unblocks the signal when it can handle it.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
    # SIGTERM is a normal end for a gateway; `main` treats it as a failure.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    if brokers is not None:
        settings = [f"brokers={brokers}", *(settings or ())]
    loaded = loaded_config(config, data, settings)
    gc.disable()  # until the node is ready: objects made by the start stay, so collecting is wasted work
    from sluicegate.gateway.machine.serve import serve_machine  # late, likewise
    from sluicegate.gateway.process.brokers import total_count
    from sluicegate.gateway.process.run import run  # late: every other command starts without the broker's code

    try:
        if loaded.cluster.runs_several:
            exit_code = _serve_brokers(loaded, config, data, settings)
        elif loaded.cluster.enabled:
            exit_code = _serve_replica(loaded, lambda: _reloaded(config, data, settings))
        elif loaded.brokers is None and total_count(loaded.data.path, 1) == 1:
            exit_code = run(loaded, reload=lambda: _reloaded(config, data, settings))
        else:
            exit_code = serve_machine(loaded, reload=lambda: _reloaded(config, data, settings))
    except CannotStart as error:
        raise CommandFailed(error.text, advice=error.advice) from None
    raise typer.Exit(exit_code)


def _serve_brokers(loaded: Config, config: Path | None, data: Path | None, settings: list[str] | None) -> int:
    _check_cluster_client()
    from sluicegate.gateway.cluster.several.serve import serve_brokers  # late, likewise

    brokers = _each_broker(loaded, config, data, settings)
    given = [] if config is None else ["--config", str(config)]
    given += [part for each in _given(data, settings) for part in ("--set", each)]
    return serve_brokers(loaded, brokers, given)


def _each_broker(
    loaded: Config, config: Path | None, data: Path | None, settings: list[str] | None
) -> dict[str, Config]:
    """Return the configuration of each broker of which the machine runs replicas. Raises CommandFailed."""
    names = loaded.cluster.brokers
    return {name: loaded_config(config, data, [*(settings or ()), f"cluster.broker={name}"]) for name in names}


def _serve_replica(loaded: Config, reload: Callable[[], Config]) -> int:
    _check_cluster_client()
    from sluicegate.gateway.cluster.serve import serve_replica  # late: it needs the client

    return serve_replica(loaded, reload=reload)


def _check_cluster_client() -> None:
    if importlib.util.find_spec("nats") is None:
        advice = "Install it with pip install 'sluicegate[cluster]'."
        raise CannotStart("cluster.servers: the client for NATS is not installed", advice=advice)


def check_config(
    config: ConfigOption = None, data: DataOption = None, settings: SetOption = None, as_json: JsonOption = False
) -> None:
    """Check the configuration.

    Prints the effective value of every setting. The environment and `--set` count, as they do for `serve`.
    """
    loaded = loaded_config(config, data, settings)
    if loaded.cluster.runs_several:
        _each_broker(loaded, config, data, settings)  # each has settings of its own
    for finding in loaded.virtual_destinations.warnings():
        where = ".".join(str(part) for part in ("virtual_destinations", *finding.place))
        typer.echo(f"warning: {where}: {finding.text}", err=True)
    for vpn_name, vpn in loaded.message_vpns().items():
        for setting, text in doubled_messages(vpn):
            typer.echo(f"warning: {vpn_setting(vpn_name, setting)}: {text}", err=True)
    if as_json:
        print_json(loaded.model_dump(mode="json"))
        return
    for path, field, value in leaves(loaded):
        typer.echo(f"{path} = {'(hidden)' if is_secret(field) else shown(value)}  # {allowed_by(field)}")


def hash_password(
    scram: Annotated[
        bool, typer.Option("--scram", help="Print the stored form of SCRAM-SHA-256 instead, for a password_file.")
    ] = False,
    sha_512: Annotated[
        bool, typer.Option("--sha-512", help="That of SCRAM-SHA-512, which is for MQTT clients only.")
    ] = False,
    iterations: Annotated[
        int, typer.Option(min=ITERATIONS_MIN, max=ITERATIONS_MAX, help="Iterations of that form.")
    ] = ITERATIONS_MIN,
) -> None:
    """Read a password and print its hash.

    The password is read from the terminal without echo, or from a line of standard input. The hash is made by argon2.
    """
    password = new_password(None)
    if not (scram or sha_512):
        typer.echo(PasswordHasher().hash(password))
        return
    try:
        typer.echo(stored_text(password, iterations, secrets.token_bytes, NAME_512 if sha_512 else NAME))
    except ValueError as error:
        raise CommandFailed(f"SCRAM cannot use this password: {error}", exit_code=USAGE) from None


def _reloaded(config: Path | None, data: Path | None, settings: list[str] | None) -> Config:
    """Load the configuration from the same sources again. Raises ConfigError."""
    return load(config, environment=os.environ, settings=_given(data, settings))


def _given(data: Path | None, settings: list[str] | None) -> list[str]:
    return [*([f"data.path={data}"] if data is not None else ()), *(settings or ())]


def loaded_config(config: Path | None, data: Path | None, settings: list[str] | None) -> Config:
    """Return the configuration from all its sources. Raises CommandFailed with every error in it."""
    try:
        return load(config, environment=os.environ, settings=_given(data, settings))
    except ConfigUnreadable as error:
        raise CommandFailed(str(error), exit_code=USAGE) from None
    except ConfigError as error:
        advice = "`sluicegate check-config` prints every setting with its allowed values."
        raise CommandFailed(f"the configuration is invalid\n{error}", exit_code=USAGE, advice=advice) from None
