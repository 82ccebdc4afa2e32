"""Read the sources into a checked `Config`, or into a list of all problems."""

from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from typing import BinaryIO, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from sluicegate.gateway.config.cluster_brokers import chosen_broker, own_part, take_identity, take_settings
from sluicegate.gateway.config.document import (
    BYTES_MAX,
    ConfigError,
    ConfigUnreadable,
    Document,
    Path,
    Place,
    Problem,
    no_such_key,
)
from sluicegate.gateway.config.findings import Finding, finding_of
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.config.sections.message_vpns.message_vpns import vpn_path
from sluicegate.gateway.config.sections.message_vpns.virtual_destinations import PLACED_PROBLEM
from sluicegate.gateway.config.sections.node import QUEUE_PROBLEM
from sluicegate.gateway.config.settings.bridge_conflicts import conflicts
from sluicegate.gateway.config.settings.bridges import refused_rules, settings_of
from sluicegate.gateway.config.settings.payload_rules import SchemaFiles, unusable_rules
from sluicegate.gateway.config.settings.rest_delivery_points import consumer_settings, refused_hosts, reserved_headers
from sluicegate.gateway.config.sources import (
    ENVIRONMENT_PREFIX,
    ENVIRONMENT_SOURCE,
    LEVEL_SEPARATOR,
    apply_environment,
    apply_settings,
)
from sluicegate.messaging.message.vpn import NAME_CHARS_MAX, NAME_PATTERN
from sluicegate.messaging.queues.attributes import ATTRIBUTE_BY_NAME, quoted
from sluicegate.messaging.queues.definition import QueueInvalid, check_queue_name
from sluicegate.messaging.queues.template import NOT_IN_TEMPLATES
from sluicegate.messaging.selectors.selector import Selectors

TEMPLATE_KEYS: Final = (
    "name",
    "queue_name_filter",
    "durability_override",
    *[name for name in ATTRIBUTE_BY_NAME if name not in NOT_IN_TEMPLATES],
)
KEY_OF_A_MAPPING: Final = "[key]"  # the last part of a place if pydantic means a key and not its value
QUEUE_KEYS: Final = ("name", *ATTRIBUTE_BY_NAME, "subscriptions")


def load(
    file: FilePath | None = None, *, environment: Mapping[str, str] | None = None, settings: Sequence[str] = ()
) -> Config:
    """Return the configuration. Raises ConfigError, which names every problem with its place.

    The environment is an argument: only the command line passes the real one.
    """
    document = _document(file, environment or {}, settings)
    if name := chosen_broker(document):
        document = _document(file, environment or {}, settings, broker=name)
        take_identity(document, name)
    try:
        config = Config.model_validate(document.root)
    except ValidationError as error:
        found = [_problem(document, details) for details in error.errors(include_url=False)]
        raise ConfigError(sorted(dict.fromkeys(found), key=_reading_order)) from None
    problems = _plain_passwords(document, config) + _wrong_selectors(document, config)
    problems += _wrong_queue_names(document, config) + _refused_points(document, config)
    problems += _refused_bridges(document, config)
    problems += _unusable_files(document, config)
    problems += _unusable_schemas(document, config)
    if problems:
        raise ConfigError(problems)
    return own_part(config)


def _document(
    file: FilePath | None, environment: Mapping[str, str], settings: Sequence[str], *, broker: str = ""
) -> Document:
    """Return the sources together, with the settings of one broker of several, if given. Raises ConfigError."""
    document = Document() if file is None else _document_of(file)
    if broker:
        take_settings(document, broker)
    problems = apply_environment(document, environment)
    problems += apply_settings(document, settings)
    if problems:
        raise ConfigError(problems)
    return document


def _document_of(file: FilePath) -> Document:
    from sluicegate.gateway.config.yaml_document import read_yaml  # late: a node without a file needs no PyYAML

    return read_yaml(text_of(file), str(file))


def text_of(file: FilePath, *, bytes_max: int = BYTES_MAX) -> str:
    """Return the text of a YAML file. Raises ConfigError if it cannot be read or is too large."""
    place = Place(str(file))
    try:
        with file.open("rb") as stream:
            return text_in(stream, place, bytes_max=bytes_max)
    except OSError as problem:
        raise ConfigUnreadable([Problem(place, "", f"the file cannot be read: {problem.strerror}")]) from None


def text_in(stream: BinaryIO, place: Place, *, bytes_max: int) -> str:
    """Return the rest of an open file. Raises OSError, and ConfigError as `text_of`."""
    raw = stream.read(bytes_max + 1)
    if len(raw) > bytes_max:
        raise ConfigError([Problem(place, "", f"the file is larger than {bytes_max} bytes")])
    try:
        return raw.decode()
    except UnicodeDecodeError as problem:
        raise ConfigError([Problem(place, "", f"byte {problem.start} is not UTF-8")]) from None


def _problem(document: Document, details: ErrorDetails) -> Problem:
    """Translate one of pydantic's errors, with the place of the value."""
    location: Path = details["loc"]
    if details["type"] == QUEUE_PROBLEM:
        context = details.get("ctx", {})
        field = context["field"]
        within = location[2:] if location[:1] == ("vpns",) else location
        keys = TEMPLATE_KEYS if within[:2] == ("queues", "templates") else QUEUE_KEYS
        if field in keys:
            found = Finding((*location, field), context["reason"], context["allowed"])
        else:
            found = Finding((*location, field), no_such_key(field, keys), ", ".join(keys), of_key=True)
    elif details["type"] == PLACED_PROBLEM:
        context = details.get("ctx", {})
        found = Finding((*location, *context["place"]), context["text"])
    elif location[-1:] == (KEY_OF_A_MAPPING,):
        found = _wrong_name(location[:-1], details)
    else:
        found = finding_of(Config, details)
    return Problem(document.place(found.path, of_key=found.of_key), found.field, str(found))


def _wrong_name(path: Path, details: ErrorDetails) -> Finding:
    """Return the problem with the name of a message VPN: the only keys that an operator chooses."""
    ours = details.get("ctx", {}).get("error")
    if isinstance(ours, ValueError):
        return Finding(path, str(ours), of_key=True)
    allowed = f"a text of at most {NAME_CHARS_MAX} characters that matches {NAME_PATTERN}"
    return Finding(path, f"{quoted(details['input'])} is not a message VPN name", allowed, of_key=True)


def _plain_passwords(document: Document, config: Config) -> list[Problem]:
    """Find passwords in the file that are not hashed. A reader of the configuration must not learn passwords."""
    problems: list[Problem] = []
    for section, account in config.accounts():
        if account.password is None or account.is_hashed():
            continue
        path = (*section, "password")
        place = document.place(path)
        if place.source.startswith(ENVIRONMENT_SOURCE):
            continue
        variable = ENVIRONMENT_PREFIX + LEVEL_SEPARATOR.join(str(part).upper() for part in path)
        ways = f"the output of `sluicegate hash-password`, or password_file, or {variable} in the environment"
        problems.append(Problem(place, _dotted(path), f"a plain password stands here; allowed: {ways}"))
    return problems


def _wrong_selectors(document: Document, config: Config) -> list[Problem]:
    """Find selectors that are invalid in the configured dialect."""
    problems: list[Problem] = []
    selectors = Selectors({}, config.selectors.dialect())
    for name, vpn in config.message_vpns().items():
        for finding in vpn.virtual_destinations.selector_errors(selectors):
            path: Path = (*vpn_path(name), "virtual_destinations", *finding.place)
            problems.append(Problem(document.place(path), _dotted(path), finding.text))
    return problems


def _wrong_queue_names(document: Document, config: Config) -> list[Problem]:
    """Find declared queues that have wildcards in their names and consume no virtual topic."""
    problems: list[Problem] = []
    for name, vpn in config.message_vpns().items():
        definitions = vpn.virtual_destinations.definitions()
        for index, queue in enumerate(vpn.queues.declared):
            if not definitions.consumes_virtual_topic(queue.config.name):
                try:
                    check_queue_name(queue.config.name)
                except QueueInvalid as problem:
                    path: Path = (*vpn_path(name), "queues", "declared", index, problem.field)
                    text = f"{problem.reason}; allowed: {problem.allowed}"
                    problems.append(Problem(document.place(path), _dotted(path), text))
    return problems


def _refused_points(document: Document, config: Config) -> list[Problem]:
    """Find REST delivery points with settings that no point may have."""
    problems: list[Problem] = []
    targets = config.rest.targets()
    for name, vpn in config.message_vpns().items():
        for index, point in enumerate(vpn.rest_delivery_points):
            for finding in (*reserved_headers(point), *refused_hosts(point, targets)):
                path: Path = (*vpn_path(name), "rest_delivery_points", index, *finding.path)
                problems.append(Problem(document.place(path), _dotted(path), str(finding)))
    return problems


def _refused_bridges(document: Document, config: Config) -> list[Problem]:
    """Find bridges that would send messages in circles, bring them twice, or stand in the way of each other."""
    problems: list[Problem] = []
    for name, vpn in config.message_vpns().items():
        queues = [queue.config for queue in vpn.queues.declared]
        for index, bridge in enumerate(vpn.bridges):
            beside = conflicts(bridge, vpn.bridges[:index], queues, node=config.node.name, vpn=name)
            for finding in (*refused_rules(bridge), *beside):
                path: Path = (*vpn_path(name), "bridges", index, *finding.path)
                problems.append(Problem(document.place(path), _dotted(path), str(finding)))
    return problems


def _unusable_files(document: Document, config: Config) -> list[Problem]:
    """Find unusable files of configured bridges and REST delivery points."""
    problems: list[Problem] = []
    for name, vpn in config.message_vpns().items():
        for index, bridge in enumerate(vpn.bridges):
            if bridge.enabled and bridge.names_a_file():
                try:
                    settings_of(bridge, node=config.node.name, vpn=name)
                except ValueError as problem:
                    where: Path = (*vpn_path(name), "bridges", index)
                    problems.append(Problem(document.place(where), _dotted(where), str(problem)))
        for index, point in enumerate(vpn.rest_delivery_points):
            for number, consumer in enumerate(point.rest_consumers):
                if not point.enabled or not consumer.names_a_file():
                    continue
                try:
                    consumer_settings(consumer, config.rest.targets())
                except ValueError as problem:
                    path: Path = (*vpn_path(name), "rest_delivery_points", index, "rest_consumers", number)
                    problems.append(Problem(document.place(path), _dotted(path), str(problem)))
    return problems


def _unusable_schemas(document: Document, config: Config) -> list[Problem]:
    """Find rules for payloads whose schema cannot be used."""
    problems: list[Problem] = []
    files = SchemaFiles(config.schemas)
    for name, vpn in config.message_vpns().items():
        for index, text in unusable_rules(vpn.payload_rules, files):
            path: Path = (*vpn_path(name), "payload_rules", index, "schema_file")
            problems.append(Problem(document.place(path), _dotted(path), text))
    return problems


def _reading_order(problem: Problem) -> tuple[str, int, int]:
    return (problem.place.source, problem.place.line, problem.place.column)


def _dotted(path: Path) -> str:
    return ".".join(str(part) for part in path)
