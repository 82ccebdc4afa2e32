"""The envelope of SEMP's answers: data, links, counts of what lies below, and what is said of the request."""

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
    """A request, as answers speak of it."""

    method: str
    uri: str  # with scheme and host

    @property
    def path(self) -> str:
        """The URI without its query."""
        return self.uri.partition("?")[0]

    def below(self, name: str) -> str:
        """Return the URI of the object of this name in the collection that was asked."""
        return f"{self.path}/{quote(name, safe=KEYS_APART)}"


@dataclass(frozen=True, slots=True)
class Shown:
    """One object of an answer."""

    data: Document
    links: Document
    collections: Document


def shown(kind: SempObject[Any], view: Any, *, uri: str, parents: Mapping[str, str], selection: Selection) -> Shown:
    """Return what is to be seen of an object at a URI; the keys of what it lies in are among its attributes."""
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
    """Return what tells an object from others of its kind."""
    return KEYS_APART.join(str(_value_of(kind, view, each, {})) for each in kind.keys)


def is_wanted(kind: SempObject[Any], view: Any, parents: Mapping[str, str], query: SempQuery) -> bool:
    """Tell whether an object is what `where` wants. Raises SempError where that makes no sense."""
    for clause in query.clauses:
        if clause.attribute in {each.name for each in kind.collections}:
            raise invalid_parameter(f"where: {clause.attribute!r} is a collection, and no attribute")
        if not clause.holds(_value_of(kind, view, clause.attribute, parents)):
            return False
    return True


def _value_of(kind: SempObject[Any], view: Any, name: str, parents: Mapping[str, str]) -> Value:
    """Return an attribute of an object, or the key of what it lies in; it is one of theirs."""
    if name in parents:
        return parents[name]
    read = kind.attribute(name).read
    if read is None:
        raise invalid_parameter(f"where: {name!r} can only be written")
    return read(view)


def answer_of_one(asked: Asked, one: Shown) -> Document:
    """Return the answer to a request for an object."""
    answer: Document = {"data": one.data, "links": one.links, "meta": _meta(asked, 200)}
    if one.collections:
        answer["collections"] = one.collections
    return answer


def answer_of_many(asked: Asked, page: Sequence[Shown], *, count: int | None, cursor: str | None) -> Document:
    """Return the answer to a request for a page of objects; `count` is how many there are on all pages, if known."""
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
    """Return the answer to a request after which there is nothing to be seen."""
    return {"meta": _meta(asked, 200)}


def answer_of_error(asked: Asked, error: SempError) -> Document:
    """Return the answer to a request that is refused."""
    meta = _meta(asked, error.http_status)
    meta["error"] = {"code": error.code, "description": error.description, "status": error.status}
    return {"meta": meta}


def _meta(asked: Asked, response_code: int) -> Document:
    return {"request": {"method": asked.method, "uri": asked.uri}, "responseCode": response_code}


# Refusals as SEMP's clients understand them, also of what comes no further than the door of the admin port.


ROOT: Final = "/SEMP/"


def refused(asked: Asked, error: SempError, headers: dict[str, str] | None = None) -> Response:
    """Return the response to a request that is refused."""
    response = json_answer(orjson.dumps(answer_of_error(asked, error)), status=error.http_status)
    response.headers.update(headers or {})
    return response


def refused_at_the_door(request: Request, status: int, detail: str) -> Response:
    """Return the response to a request that nobody has looked at, for want of an account or of good manners."""
    if status in (401, 403):
        error = SempError(*UNAUTHORIZED, detail, http_status=status)
    else:
        error = invalid_parameter(detail, http_status=status)
    return refused(Asked(request.method, str(request.url)), error)


# One method at one path of SEMP. Routes and OpenAPI documents are made from tables of these.


BASE: Final = "/SEMP/v2"

Api = Literal["monitor", "config", "action"]
Performing = Callable[[NodeInterface, Request, Asked], Awaitable[Document]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SempOperation:
    """One operation. `path` is what follows the name of the API; what it is about, `kind` says."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    summary: str
    perform: Performing
    kind: SempObject[Any] | None = None  # of the data in its answer; None: it has none
    of_many: bool = False  # the answer is a page of objects
    body: Schema | None = None  # of what is sent
