"""The envelope of SEMP responses: data, links, counts of collections, and metadata about the request."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import quote

import orjson
from starlette.requests import Request
from starlette.responses import Response

from sluicegate.gateway.admin.requests import json_answer
from sluicegate.gateway.admin.semp.errors import UNAUTHORIZED, SempError, invalid_parameter
from sluicegate.gateway.admin.semp.objects.attributes import KEYS_APART, Schema, SempObject
from sluicegate.gateway.admin.semp.query import Selection, SempQuery, Value
from sluicegate.gateway.operations.interface import NodeInterface

Document = dict[str, object]


@dataclass(frozen=True, slots=True)
class Asked:
    """Method and URI of a request, as responses repeat them."""

    method: str
    uri: str  # with scheme and host

    @property
    def path(self) -> str:
        """The URI without its query."""
        return self.uri.partition("?")[0]

    def below(self, name: str) -> str:
        """Return the URI of the object of this name in the requested collection."""
        return f"{self.path}/{quote(name, safe=KEYS_APART)}"


@dataclass(frozen=True, slots=True)
class Shown:
    """One object in a response."""

    data: Document
    links: Document
    collections: Document


def shown(kind: SempObject[Any], view: Any, *, uri: str, parents: Mapping[str, str], selection: Selection) -> Shown:
    """Return the selected attributes of an object at a URI, including the keys of its parents."""
    data: Document = {name: value for name, value in parents.items() if selection.has(name)}
    for each in kind.attributes:
        if each.read is not None and selection.has(each.name):
            data[each.name] = each.read(view)
    links: Document = {f"{each.name}Uri": f"{uri}/{each.name}" for each in kind.collections}
    counts: Document = {
        each.name: {"count": each.count(view)}
        for each in kind.collections
        if each.count is not None and selection.has(each.name)
    }
    return Shown(data, {"uri": uri, **links}, counts)


def key_of(kind: SempObject[Any], view: Any) -> str:
    """Return the key of an object, unique within its kind."""
    return KEYS_APART.join(str(_value_of(kind, view, each, {})) for each in kind.keys)


def is_wanted(kind: SempObject[Any], view: Any, parents: Mapping[str, str], query: SempQuery) -> bool:
    """Return whether an object matches `where`. Raises SempError for an invalid clause."""
    for clause in query.clauses:
        if clause.attribute in {each.name for each in kind.collections}:
            raise invalid_parameter(f"where: {clause.attribute!r} is a collection, not an attribute")
        if not clause.holds(_value_of(kind, view, clause.attribute, parents)):
            return False
    return True


def _value_of(kind: SempObject[Any], view: Any, name: str, parents: Mapping[str, str]) -> Value:
    """Return an attribute of an object, or a key of its parents."""
    if name in parents:
        return parents[name]
    read = kind.attribute(name).read
    if read is None:
        raise invalid_parameter(f"where: {name!r} is write-only")
    return read(view)


def answer_of_one(asked: Asked, one: Shown) -> Document:
    """Return the answer to a request for an object."""
    answer: Document = {"data": one.data, "links": one.links, "meta": _meta(asked, 200)}
    if one.collections:
        answer["collections"] = one.collections
    return answer


def answer_of_many(asked: Asked, page: Sequence[Shown], *, count: int | None, cursor: str | None) -> Document:
    """Return the response to a request for a page of objects; `count` is their number on all pages, if known."""
    meta = _meta(asked, 200)
    if count is not None:
        meta["count"] = count
    if cursor is not None:
        parameters = [each for each in asked.uri.partition("?")[2].split("&") if each]
        kept = [each for each in parameters if not each.startswith("cursor=")]
        query = "&".join([*kept, f"cursor={cursor}"])
        meta["paging"] = {"cursorQuery": f"cursor={cursor}", "nextPageUri": f"{asked.path}?{query}"}
    answer: Document = {"data": [each.data for each in page], "links": [each.links for each in page], "meta": meta}
    if any(each.collections for each in page):
        answer["collections"] = [each.collections for each in page]
    return answer


def answer_of_done(asked: Asked) -> Document:
    """Return the response to a request without data."""
    return {"meta": _meta(asked, 200)}


def answer_of_error(asked: Asked, error: SempError) -> Document:
    """Return the response to a refused request."""
    meta = _meta(asked, error.http_status)
    meta["error"] = {"code": error.code, "description": error.description, "status": error.status}
    return {"meta": meta}


def _meta(asked: Asked, response_code: int) -> Document:
    return {"request": {"method": asked.method, "uri": asked.uri}, "responseCode": response_code}


# Refusals in the form of SEMP, also those of the admin port's guard.

ROOT: Final = "/SEMP/"


def refused(asked: Asked, error: SempError, headers: dict[str, str] | None = None) -> Response:
    """Return the HTTP response to a refused request."""
    response = json_answer(orjson.dumps(answer_of_error(asked, error)), status=error.http_status)
    response.headers.update(headers or {})
    return response


def early_refusal(request: Request, status: int, detail: str) -> Response:
    """Return the response to a request that the guard or the limits of the admin port refuse."""
    if status in (401, 403):
        error = SempError(*UNAUTHORIZED, detail, http_status=status)
    else:
        error = invalid_parameter(detail, http_status=status)
    return refused(Asked(request.method, str(request.url)), error)


BASE: Final = "/SEMP/v2"

Api = Literal["monitor", "config", "action"]
Performing = Callable[[NodeInterface, Request, Asked], Awaitable[Document]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SempOperation:
    """One method at one path. Routes and OpenAPI documents are built from tables of operations.

    `path` follows the name of the API.
    """

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    summary: str
    perform: Performing
    kind: SempObject[Any] | None = None  # of the data in the response; None: no data
    of_many: bool = False  # the response is a page of objects
    body: Schema | None = None  # of the request
