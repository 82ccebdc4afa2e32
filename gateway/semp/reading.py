"""Reading objects of SEMP: one at its path, or a page of those in a collection."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from starlette.requests import Request

from gateway.admin.requests import path_name
from gateway.ports import NodePort
from gateway.semp.attributes import SempObject, configured
from gateway.semp.envelope import Asked, Document, answer_of_many, answer_of_one, is_wanted, key_of, shown
from gateway.semp.errors import not_found
from gateway.semp.operation import SempOperation
from gateway.semp.query import SempQuery, page_of, read_query

Names = Sequence[str]  # of the objects of a path, from the outside in
Listing = Callable[[NodePort, Names], Awaitable[Sequence[Any]]]


@dataclass(frozen=True, slots=True)
class Resource:
    """A collection at a path, and the objects in it. `parents` are the keys of what it lies in."""

    path: str
    kind: SempObject[Any]
    parents: tuple[str, ...]
    listed: Listing
    one: Listing | None = None  # returns the object alone, where that costs less than all; its name is the last one

    @property
    def object_path(self) -> str:
        """The path of an object in it."""
        return f"{self.path}/{{{self.kind.key}}}"

    def as_configured(self) -> "Resource":
        """Return it as `config` shows it."""
        return replace(self, kind=configured(self.kind))

    def parents_of(self, request: Request) -> dict[str, str]:
        """Return the keys of what a request's objects lie in."""
        return {name: path_name(request, name) for name in self.parents}


def reading(resource: Resource) -> tuple[SempOperation, SempOperation]:
    """Return the operations that show what there is."""

    async def many(node: NodePort, request: Request, asked: Asked) -> Document:
        return await _page(node, resource, request, asked)

    async def one(node: NodePort, request: Request, asked: Asked) -> Document:
        query, name = query_of_one(resource, request), path_name(request, resource.kind.key)
        return await answer_with(node, resource, resource.parents_of(request), name, query, asked, uri=asked.path)

    kind = resource.kind
    return (
        SempOperation(
            method="GET", path=resource.path, summary=f"Every {kind.kind}", perform=many, kind=kind, of_many=True
        ),
        SempOperation(method="GET", path=resource.object_path, summary=f"One {kind.kind}", perform=one, kind=kind),
    )


async def _page(node: NodePort, resource: Resource, request: Request, asked: Asked) -> Document:
    kind, parents = resource.kind, resource.parents_of(request)
    query = read_query(request.url.query, [*parents, *kind.names()], of_collection=True)
    found: dict[str, Any] = {}
    for view in await resource.listed(node, list(parents.values())):
        if is_wanted(kind, view, parents, query):
            key = place = key_of(kind, view)
            while place in found:  # clients of one name, over several protocols
                place += "\0"
            found[place] = (key, view)
    places, cursor = page_of(sorted(found), query)
    page = [
        shown(kind, view, uri=asked.below(key), parents=parents, selection=query.selection)
        for key, view in (found[place] for place in places)
    ]
    return answer_of_many(asked, page, count=len(found), cursor=cursor)


def query_of_one(resource: Resource, request: Request) -> SempQuery:
    """Return what a request that is answered with one object wants to see of it. Raises SempError."""
    return read_query(request.url.query, [*resource.parents, *resource.kind.names()], of_collection=False)


async def answer_with(
    node: NodePort,
    resource: Resource,
    parents: Mapping[str, str],
    name: str,
    query: SempQuery,
    asked: Asked,
    *,
    uri: str,
) -> Document:
    """Return the answer with the object of this name, which is at `uri`. Raises SempError."""
    kind = resource.kind
    listed = resource.one or resource.listed
    for view in await listed(node, [*parents.values(), name]):
        if key_of(kind, view) == name:
            one = shown(kind, view, uri=uri, parents=parents, selection=query.selection)
            return answer_of_one(asked, one)
    raise not_found(f"{kind.kind} {name!r}")
