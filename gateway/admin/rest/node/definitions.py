"""Export and import of definitions: what operators created, as one document.

Each object needs the access level that an operation on it alone needs. An import is audited object by object.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from time import monotonic
from typing import Final

import orjson
from starlette.requests import Request
from starlette.responses import Response

from sluicegate.actors.runtime.events import Events
from sluicegate.gateway.admin.operation import (
    INVALID_PARAMETER,
    JSON,
    NO_VPN,
    PROBLEM,
    REFUSED,
    TOO_LARGE,
    TOO_SLOW,
    Answer,
    NamedSchema,
    Operations,
    TextParameter,
)
from sluicegate.gateway.admin.problems import ANSWER_TIMEOUT_S, Unacceptable, level_too_low, permit
from sluicegate.gateway.admin.requests import content_type, json_answer, read_body, text, truth, view_json
from sluicegate.gateway.admin.rest.schemas import fixed
from sluicegate.gateway.config.document import ConfigError, Document
from sluicegate.gateway.config.sections.admin import AccessLevel, AdminAccount
from sluicegate.gateway.definitions.applying import applied, as_planned
from sluicegate.gateway.definitions.background import in_background
from sluicegate.gateway.definitions.document import (
    SETTINGS,
    VALUES_MAX,
    VERSION,
    DefinitionsInvalid,
    Path,
    read_definitions,
)
from sluicegate.gateway.definitions.export import exported
from sluicegate.gateway.definitions.kinds import KINDS
from sluicegate.gateway.definitions.plan import OUTCOMES, Step, Wanted, WhyNot, planned
from sluicegate.gateway.operations.interface import NodeInterface
from sluicegate.gateway.views.definitions import DefinitionsView
from sluicegate.gateway.views.errors import Refused
from sluicegate.messaging.message.vpn import NAME_CHARS_MAX
from sluicegate.messaging.observability.events import SYSTEM_ADMIN_COMMAND, SYSTEM_PASSWORD_HASHES_EXPORTED
from sluicegate.messaging.queues.definition import QueueInvalid

DEFINITIONS: Final = Operations()

YAML: Final = "application/yaml"  # RFC 9512
JSON_BYTES_MAX: Final = 16 << 20  # more than 8 MiB of YAML, which the command line reads, have in JSON
YAML_BYTES_MAX: Final = 1 << 20  # reading YAML takes some seconds for each MiB, JSON some milliseconds
APPLY_S: Final = 20.0  # after which an import begins no other change
assert APPLY_S < ANSWER_TIMEOUT_S, "otherwise the request would be cut off in the middle of a change"

VPNS: Final = TextParameter("vpn", "message VPN to export; repeatable; default: all", NAME_CHARS_MAX)
WITH_PASSWORD_HASHES: Final = TextParameter(
    "with_password_hashes", "true: users with the hashes of their passwords; needs the level admin; default: false", 5
)
FORMAT: Final = TextParameter("format", "json or yaml; default: json", 4)
DRY_RUN: Final = TextParameter("dry_run", "true: change nothing, and answer what would change; default: false", 5)
PRUNE: Final = TextParameter(
    "prune", "true: delete what the document does not list, of the kinds that it lists; default: false", 5
)

_LISTS: Final = {
    kind.kind: {"type": "array", "items": {"type": "object"}, "description": f"each {kind.label} with its name"}
    for kind in KINDS
    if kind.kind != SETTINGS
}
_OBJECTS: Final = {
    "type": "object",
    "properties": {SETTINGS: {"type": "object", "description": "of the message VPN, which they create"}, **_LISTS},
    "additionalProperties": False,
}
DOCUMENT: Final = fixed(
    "Definitions",
    {
        "type": "object",
        "properties": {
            "version": {"const": VERSION},
            "message_vpns": {"type": "object", "additionalProperties": _OBJECTS},
        },
        "required": ["version", "message_vpns"],
        "additionalProperties": False,
    },
)
_MISTAKE: Final = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "JSON pointer to the wrong value; empty: the whole document"},
        "detail": {"type": "string", "description": "what is wrong, and what is allowed"},
        "line": {"type": "integer", "description": "in YAML, from 1"},
        "column": {"type": "integer", "description": "in YAML, from 1"},
    },
    "required": ["path", "detail"],
}
INVALID_DOCUMENT: Final = NamedSchema(
    "DefinitionsProblem",
    lambda: {
        "DefinitionsProblem": {
            **PROBLEM.definitions()["Problem"],
            "properties": {
                **_properties(PROBLEM),
                "mistakes": {"type": "array", "items": _MISTAKE, "description": "the first of each object"},
            },
        }
    },
)


def _properties(schema: NamedSchema) -> Mapping[str, object]:
    properties = schema.definitions()[schema.name]["properties"]
    assert isinstance(properties, dict), "it is the schema of an object"
    return properties


@DEFINITIONS.operation(
    "GET",
    "/definitions",
    Answer(200, "The document", DOCUMENT, other_media_types=(YAML,)),
    Answer(409, "The document is too large; `detail` says what to do", PROBLEM),
    NO_VPN,
    INVALID_PARAMETER,
    parameters=(VPNS, FORMAT, WITH_PASSWORD_HASHES),
    of_vpn=False,
    level=AccessLevel.NONE,  # checked below: in the node, or in the named message VPNs
)
async def export_definitions(node: NodeInterface, request: Request) -> Response:
    """Definitions: what operators created, as a document that can be applied; hashes of passwords by option only."""
    form = text(request, FORMAT) or "json"
    if form not in ("json", "yaml"):
        raise QueueInvalid(FORMAT.name, f"{form!r} is not allowed", "json, yaml")
    vpns = _vpns_of(request)
    account: AdminAccount = request.state.account
    sees_settings = account.global_access_level >= AccessLevel.READ_ONLY
    with_hashes = truth(request, WITH_PASSWORD_HASHES)
    if with_hashes:
        permit(request, request.state.operation, AccessLevel.ADMIN)
    document = await exported(node, vpns, with_settings=sees_settings, with_password_hashes=with_hashes)
    if form == "json":
        packed, size_max = await in_background(partial(orjson.dumps, document)), JSON_BYTES_MAX
    else:
        from sluicegate.gateway.definitions.text import as_yaml  # late: importing PyYAML takes a twentieth of a start

        packed, size_max = (await in_background(partial(as_yaml, document))).encode(), YAML_BYTES_MAX
    if len(packed) > size_max:  # POST takes as much
        instead = "take JSON, or one message VPN at a time" if form == "yaml" else "take one message VPN at a time"
        raise Refused(f"the document has {len(packed)} bytes, and in this format at most {size_max}: {instead}")
    if with_hashes:
        _report_hashes(request, vpns)
    return json_answer(packed) if form == "json" else Response(packed, media_type=YAML)


def _report_hashes(request: Request, vpns: Sequence[str]) -> None:
    """Emit the event that says who has taken the hashes of passwords."""
    events: Events = request.app.state.events
    details = {"account": request.state.account.name, "from": _host(request), "vpns": ", ".join(vpns) or "all"}
    text = f"{_who(request)} exported the password hashes of users; message VPNs: {details['vpns']}"
    events.emit(SYSTEM_PASSWORD_HASHES_EXPORTED, text, details=details)


def _who(request: Request) -> str:
    """Return the account of a request and its address, for the text of an event."""
    account: AdminAccount = request.state.account
    return f"{account.name!r} from {_host(request)}" if account.name else f"anonymous from {_host(request)}"


def _host(request: Request) -> str:
    return request.client.host if request.client is not None else ""


def _vpns_of(request: Request) -> list[str]:
    """Return the message VPNs that a request names, each once. Raises NotPermitted and QueueInvalid."""
    named = list(dict.fromkeys(request.query_params.getlist(VPNS.name)))
    for name in named:
        if not 0 < len(name) <= NAME_CHARS_MAX:
            raise QueueInvalid(VPNS.name, f"{name!r:.80} is not allowed", f"1 to {NAME_CHARS_MAX} characters")
        permit(request, request.state.operation, AccessLevel.READ_ONLY, name)
    if not named:
        permit(request, request.state.operation, AccessLevel.READ_ONLY)
    return named


@DEFINITIONS.operation(
    "POST",
    "/definitions",
    Answer(200, "What became of each object; of a dry run, what would", DefinitionsView),
    Answer(400, "The document is wrong; `mistakes` says where", INVALID_DOCUMENT, "application/problem+json"),
    Answer(415, "The body is neither application/json nor application/yaml", PROBLEM),
    TOO_SLOW,
    TOO_LARGE,
    REFUSED,
    INVALID_PARAMETER,
    parameters=(DRY_RUN, PRUNE),
    body=DOCUMENT,
    body_media_types=(JSON, YAML),
    of_vpn=False,
    level=AccessLevel.NONE,  # checked below: in the message VPNs that the document is about
)
async def import_definitions(node: NodeInterface, request: Request) -> Response:
    """Create and change objects to match a document; a refusal ends it, and applying again goes on from there."""
    dry_run, prune = truth(request, DRY_RUN), truth(request, PRUNE)
    account: AdminAccount = request.state.account
    if account.highest_level() < AccessLevel.READ_WRITE:  # no document is for it, so none is read
        permit(request, request.state.operation, AccessLevel.READ_WRITE)
    body, is_yaml = await _body(request)
    with _only_import(request):
        ends_s = monotonic() + APPLY_S
        wanted = await _document(request, body, is_yaml=is_yaml)
        plan = await planned(node, wanted, prune=prune, why_not=_why_not(account))
        if dry_run:
            view = await in_background(partial(as_planned, plan))
        else:
            view = await applied(
                node, plan, has_time=lambda: monotonic() < ends_s, on_made=lambda step: _audit(request, step)
            )
        return json_answer(await in_background(partial(view_json, view)))


@contextmanager
def _only_import(request: Request) -> Iterator[None]:
    """Be the only import of this port. Raises Refused."""
    state = request.app.state
    if getattr(state, "is_importing", False):
        raise Refused("another document is being applied; try again when it is done")
    state.is_importing = True
    try:
        yield
    finally:
        state.is_importing = False


def _check_levels(request: Request, root: Mapping[str, object]) -> None:
    """Check that the account may change something of all that a document is about. Raises NotPermitted.

    The objects are not read yet: who may not change them causes no further work.
    """
    operation: str = request.state.operation
    given = root.get("message_vpns")
    for vpn, by_kind in given.items() if isinstance(given, dict) else ():
        permit(request, operation, AccessLevel.READ_WRITE, vpn)
        if isinstance(by_kind, dict) and SETTINGS in by_kind:
            permit(request, operation, AccessLevel.READ_WRITE)


def _why_not(account: AdminAccount) -> WhyNot:
    def why_not(level: AccessLevel, vpn: str) -> str:
        has = account.level_in(vpn)
        return "" if has >= level else level_too_low(account, level, has).detail

    return why_not


def _audit(request: Request, step: Step) -> None:
    """Emit the event for one change, as if it had been made alone."""
    account: AdminAccount = request.state.account
    events: Events = request.app.state.events
    what, outcome = f"{step.kind.label} {step.change.name}", OUTCOMES[step.change.action]
    details = {
        "account": account.name,
        "from": _host(request),
        "operation": request.state.operation,
        "vpn": step.vpn,
        "object": what,
        "outcome": outcome.value,
    }
    text = f"{_who(request)} applied a document: {what!r} of message VPN {step.vpn!r} was {outcome}"
    events.emit(SYSTEM_ADMIN_COMMAND, text, details=details)


async def _body(request: Request) -> tuple[bytes, bool]:
    """Return the body of a request, and whether it is YAML. Raises Unacceptable."""
    given = content_type(request)
    if given not in (JSON, YAML):
        detail = f"the content type is {given!r}; send {JSON} or {YAML}"
        raise Unacceptable(415, "Neither JSON nor YAML", detail)
    body = await read_body(request, bytes_max=JSON_BYTES_MAX if given == JSON else YAML_BYTES_MAX)
    return bytes(body), given == YAML


async def _document(request: Request, body: bytes, *, is_yaml: bool) -> Wanted:
    """Return the objects of a document. Raises Unacceptable, with the mistakes in it, and NotPermitted."""
    root, places = await in_background(partial(_from_yaml if is_yaml else _from_json, body))
    _check_levels(request, root)
    return await in_background(partial(_read, root, places))


def _read(root: Mapping[str, object], places: Document | None) -> Wanted:
    try:
        return read_definitions(root, {kind.kind: kind.complete for kind in KINDS})
    except DefinitionsInvalid as invalid:
        mistakes: list[Mapping[str, object]] = []
        for each in invalid.mistakes:
            found: dict[str, object] = {"path": _pointer(each.path), "detail": each.text}
            if places is not None:
                place = places.place(each.path)
                found |= {"line": place.line, "column": place.column}
            mistakes.append(found)
        raise _wrong(mistakes) from None


def _from_json(body: bytes) -> tuple[Mapping[str, object], None]:
    try:
        root: object = orjson.loads(body)
    except orjson.JSONDecodeError as problem:
        where = f"line {problem.lineno}, column {problem.colno}"
        raise _wrong([{"path": "", "detail": f"the body is not JSON: {problem.msg} ({where})"}]) from None
    if not isinstance(root, dict):
        raise _wrong([{"path": "", "detail": "it is not a mapping; allowed: version and message_vpns"}])
    _check_size(root)
    return root, None


def _check_size(root: object) -> None:
    """Raise Unacceptable for more than VALUES_MAX values."""
    count, level = 0, [root]
    while level:
        count += len(level)
        if count > VALUES_MAX:
            raise _wrong([{"path": "", "detail": f"the document has more than {VALUES_MAX} values"}])
        level = [
            each
            for holder in level
            if isinstance(holder, dict | list)
            for each in (holder.values() if isinstance(holder, dict) else holder)
        ]


def _from_yaml(body: bytes) -> tuple[Mapping[str, object], Document]:
    from sluicegate.gateway.config.yaml_document import read_yaml  # late, as above

    try:
        document = read_yaml(body.decode(), "the document", nodes_max=VALUES_MAX)
    except UnicodeDecodeError as problem:
        raise _wrong([{"path": "", "detail": f"byte {problem.start} is not UTF-8"}]) from None
    except ConfigError as error:
        raise _wrong(
            [
                {"path": "", "detail": each.text, "line": each.place.line, "column": each.place.column}
                for each in error.problems
            ]
        ) from None
    return document.root, document


def _wrong(mistakes: Sequence[Mapping[str, object]]) -> Unacceptable:
    detail = "\n".join(str(each["detail"]) for each in mistakes)
    return Unacceptable(400, "Not a document of definitions", detail, members={"mistakes": mistakes})


def _pointer(path: Path) -> str:
    """Return a path as a JSON pointer (RFC 6901)."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)
