"""Links of a node in memory: what operators create and change, as a node keeps it. None is ever up."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sluicegate.gateway.config.findings import changed, described
from sluicegate.gateway.config.sections.links import NamedLink
from sluicegate.gateway.provisioning.store import OPERATOR
from sluicegate.gateway.views.errors import LinkAlreadyExists, LinkNotFound, Refused
from sluicegate.gateway.views.links import LinksView, LinkView, link_view


@dataclass
class MemoryLinks:
    """The part of a node that is about links."""

    links: dict[str, NamedLink] = field(default_factory=dict)
    forgettable: set[str] = field(default_factory=set)  # neighbors whose link was deleted; a message waits for each

    async def list_links(self) -> LinksView:
        return LinksView("a", "default", {}, [self._link_view(each) for _, each in sorted(self.links.items())], [])

    async def show_link(self, name: str) -> LinkView:
        if name not in self.links:
            raise LinkNotFound(name)
        return self._link_view(self.links[name])

    async def create_link(self, asked: Mapping[str, object]) -> LinkView:
        link = described(NamedLink, asked)
        if link.name in self.links:
            raise LinkAlreadyExists(link.name)
        self.links[link.name] = link
        return self._link_view(link)

    async def update_link(self, name: str, changes: Mapping[str, object]) -> LinkView:
        if name not in self.links:
            raise LinkNotFound(name)
        self.links[name] = changed(self.links[name], changes)
        return self._link_view(self.links[name])

    async def delete_link(self, name: str) -> None:
        if self.links.pop(name, None) is None:
            raise LinkNotFound(name)
        self.forgettable.add(name)

    async def forget_neighbor(self, name: str, *, vpn: str = "", force: bool) -> None:
        if name in self.links and (not vpn or vpn in self.links[name].vpns):
            raise Refused(f"there is a link to {name}")
        if name not in self.forgettable:
            raise LinkNotFound(name)
        if not force:
            raise Refused(f"1 messages wait for {name}")
        self.forgettable.remove(name)

    def _link_view(self, link: NamedLink) -> LinkView:
        return link_view(link, None, origin=OPERATOR, reason="")
