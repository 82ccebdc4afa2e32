"""Versions of objects that operators change: a tag of an object's settings, and changes on the condition of one.

A response with one object has the header `ETag` (RFC 9110, 8.8.3): a hash of its settings, without counters and states.
A change with `If-Match` (13.1.1) is made only if the object's settings still have that tag. So of two operators who
change what both have read, one is told that the other was first.

Operators change an object and its parts one after the other, so none of them comes between the comparison and the
change of another. A reload of the configuration, and clients that define queues over a protocol, are not held up.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import blake2b
from typing import Any, Final
from weakref import WeakValueDictionary

import orjson
from starlette.requests import Request

from sluicegate.gateway.admin.problems import Unacceptable

CHANGES: Final = ("PATCH", "PUT", "DELETE")
TAG_BYTES: Final = 12

Settings = Callable[[dict[str, Any]], object]


def _whole(view: dict[str, Any]) -> object:
    return view


def _definition(view: dict[str, Any]) -> object:
    return view["definition"]


def _without(*states: str) -> Settings:
    return lambda view: {name: value for name, value in view.items() if name not in states}


def _settings_of_vpn(view: dict[str, Any]) -> object:
    return (view["settings"], view["enabled"], view["origin"])


# What of the view of an object are its settings, by the path of the object.
SETTINGS: Final[dict[str, Settings]] = {
    "/queues/{name}": lambda view: (view["config"], view["subscriptions"], view.get("durable")),
    "/queue-templates/{name}": _whole,
    "/message-vpns/{name}": _settings_of_vpn,
    "/users/{name}": _without("connected_count", "reason"),
    "/client-profiles/{name}": _whole,
    "/acl-profiles/{name}": _whole,
    "/rest-delivery-points/{name}": _definition,
    "/bridges/{name}": _definition,
    "/links/{name}": _definition,
}
# What is changed by itself and is among the settings of an object.
PARTS: Final = {"/queues/{name}/subscriptions/{topic}": "/queues/{name}"}
# The same objects in SEMP, where a configuration has no counters.
PATH_OF_KIND: Final = {
    "msgVpn": "/message-vpns/{name}",
    "queue": "/queues/{name}",
    "queueTemplate": "/queue-templates/{name}",
    "clientUsername": "/users/{name}",
    "clientProfile": "/client-profiles/{name}",
    "aclProfile": "/acl-profiles/{name}",
    "dmrClusterLink": "/links/{name}",
}

OF_NODE: Final = ("/message-vpns/{name}", "/links/{name}")  # their names are not those of a message VPN

_locks: Final[WeakValueDictionary[tuple[object, ...], asyncio.Lock]] = WeakValueDictionary()


def tag_of(settings: object) -> str:
    """Return the entity tag of settings, quotes included."""
    text = orjson.dumps(settings, option=orjson.OPT_SORT_KEYS)
    return f'"{blake2b(text, digest_size=TAG_BYTES).hexdigest()}"'


@asynccontextmanager
async def alone(path: str, vpn: str, name: str) -> AsyncIterator[None]:
    """Change an object, or a part of it, that no other operator changes meanwhile, at any port of this process."""
    key = (id(asyncio.get_running_loop()), path, "" if path in OF_NODE else vpn, name)
    lock = _locks.get(key)
    if lock is None:
        lock = _locks[key] = asyncio.Lock()
    async with lock:
        yield


def is_conditional(request: Request) -> bool:
    """Return whether a change is asked for on the condition of a tag."""
    return request.headers.get("if-match", "*").strip() != "*"


def check_tag(request: Request, current: str) -> None:
    """Raise Unacceptable if the settings do not have one of the tags that the request names."""
    wanted = [each.strip() for each in request.headers["if-match"].split(",")]
    if current not in wanted:
        text = f"its settings have been changed meanwhile, and have the tag {current} now: read it again"
        raise Unacceptable(412, "Changed meanwhile", text, {"ETag": current})
