"""SEMP's read operations: one object at its path, or a page of a collection."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from starlette.requests import Request

from sluicegate.gateway.admin.requests import path_name
from sluicegate.gateway.admin.semp.envelope import (
    Asked,
    Document,
    SempOperation,
    answer_of_many,
    answer_of_one,
    is_wanted,
    key_of,
    shown,
)
from sluicegate.gateway.admin.semp.errors import not_found
from sluicegate.gateway.admin.semp.objects.attributes import KEYS_APART, SempObject, configured
from sluicegate.gateway.admin.semp.query import SempQuery, page_of, read_query
from sluicegate.gateway.operations.interface import NodeInterface

Names = Sequence[str]  # of the objects in a path, outermost first
Listing = Callable[[NodeInterface, Names], Awaitable[Sequence[Any]]]
Finding = Callable[[NodeInterface, Names, Collection[str]], Awaitable[Sequence[Any]]]
Naming = Callable[[NodeInterface, Names], Awaitable[Sequence[str]]]


@dataclass(frozen=True, slots=True)
class Resource:
    """A collection at a path, and its objects. `parents` are the keys of the objects that contain it."""

    path: str
    kind: SempObject[Any]
    parents: tuple[str, ...]
    listed: Listing
    found: Finding | None = None  # returns only the named objects, where that is cheaper
    names: Naming | None = None  # returns all names, where reading all objects is expensive

    @property
    def object_path(self) -> str:
        """The path of an object in the collection."""
        return f"{self.path}/{KEYS_APART.join(f'{{{each}}}' for each in self.kind.keys)}"

    def as_configured(self) -> "Resource":
        """Return the resource as `config` shows it."""
        return replace(self, kind=configured(self.kind))

    async def seen(self, node: NodeInterface, parents: Names, names: Collection[str]) -> Sequence[Any]:
        """Return the objects of these names, and possibly others."""
        return await (self.listed(node, parents) if self.found is None else self.found(node, parents, names))

    def parents_of(self, request: Request) -> dict[str, str]:
        """Return the keys of the parents in a request's path."""
        return {name: path_name(request, name) for name in self.parents}

    def name_in(self, request: Request) -> str:
        """Return the name of the object in a request's path, in the form of `key_of`."""
        return KEYS_APART.join(path_name(request, each) for each in self.kind.keys)


def reading(resource: Resource) -> tuple[SempOperation, SempOperation]:
    """Return the read operations of a resource."""

    async def many(node: NodeInterface, request: Request, asked: Asked) -> Document:
        return await _page(node, resource, request, asked)

    async def one(node: NodeInterface, request: Request, asked: Asked) -> Document:
        query, name = query_of_one(resource, request), resource.name_in(request)
        return await answer_with(node, resource, resource.parents_of(request), name, query, asked, uri=asked.path)

    kind = resource.kind
    return (
        SempOperation(
            method="GET",
            path=resource.path,
            summary=f"All objects of kind {kind.kind}",
            perform=many,
            kind=kind,
            of_many=True,
        ),
        SempOperation(method="GET", path=resource.object_path, summary=f"One {kind.kind}", perform=one, kind=kind),
    )


async def _page(node: NodeInterface, resource: Resource, request: Request, asked: Asked) -> Document:
    kind, parents = resource.kind, resource.parents_of(request)
    query = read_query(request.url.query, [*parents, *kind.names()], of_collection=True)
    above = list(parents.values())
    if resource.names is not None and all(each.attribute in (kind.key, *parents) for each in query.clauses):
        names = await resource.names(node, above)
        wanted = [name for name in names if is_wanted(kind, None, {**parents, kind.key: name}, query)]
        name_at = dict(zip(_places(wanted), wanted, strict=True))
        count, (places, cursor) = len(name_at), page_of(sorted(name_at), query)
        view_at = _by_place(kind, await resource.seen(node, above, {name_at[place] for place in places}))
    else:
        views = await resource.listed(node, above)
        view_at = _by_place(kind, [view for view in views if is_wanted(kind, view, parents, query)])
        count, (places, cursor) = len(view_at), page_of(sorted(view_at), query)
    page = [
        shown(kind, view, uri=asked.below(key_of(kind, view)), parents=parents, selection=query.selection)
        for view in (view_at[place] for place in places if place in view_at)  # one may have been deleted meanwhile
    ]
    return answer_of_many(asked, page, count=count, cursor=cursor)


def _by_place(kind: SempObject[Any], views: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(_places(key_of(kind, view) for view in views), views, strict=True))


def _places(keys: Iterable[str]) -> list[str]:
    """Return the sort key of each object: its key, then its number among objects of the same key."""
    counts: dict[str, int] = {}  # clients of one name on several protocols
    places = []
    for key in keys:
        number = counts[key] = counts.get(key, -1) + 1
        places.append(f"{key}\0{number:06}" if number else key)
    return places


def query_of_one(resource: Resource, request: Request) -> SempQuery:
    """Return the selection of a request for one object. Raises SempError."""
    return read_query(request.url.query, [*resource.parents, *resource.kind.names()], of_collection=False)


async def answer_with(
    node: NodeInterface,
    resource: Resource,
    parents: Mapping[str, str],
    name: str,
    query: SempQuery,
    asked: Asked,
    *,
    uri: str,
) -> Document:
    """Return the response with the object of this name at `uri`. Raises SempError."""
    kind = resource.kind
    for view in await resource.seen(node, list(parents.values()), (name,)):
        if key_of(kind, view) == name:
            one = shown(kind, view, uri=uri, parents=parents, selection=query.selection)
            return answer_of_one(asked, one)
    raise not_found(f"{kind.kind} {name!r}")
