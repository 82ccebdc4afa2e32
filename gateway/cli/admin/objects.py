"""The client of the admin API for replicas, bridges, links, REST delivery points, users and profiles.

Their views import models of the configuration, which most commands do not need.
"""

from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlencode

from sluicegate.gateway.cli.admin.client import AdminClient, read_view
from sluicegate.gateway.views.bridges import BridgesView, BridgeView
from sluicegate.gateway.views.clients.accounts import (
    AclProfileView,
    ClientProfileView,
    ProfileKind,
    ProfilesView,
    UsersView,
    UserView,
)
from sluicegate.gateway.views.cluster import ClusterBrokersView, ClusterView, ReplicationView
from sluicegate.gateway.views.definitions import DefinitionsView
from sluicegate.gateway.views.links import LinksView, LinkView
from sluicegate.gateway.views.rest import RestDeliveryPointsView, RestDeliveryPointView


class AdminObjects(AdminClient):
    """An AdminClient that also manages replicas, bridges, links, REST delivery points, users and profiles."""

    def rest_delivery_points(self) -> RestDeliveryPointsView:
        """Return every REST delivery point."""
        return read_view(RestDeliveryPointsView, self._port.ask("GET", "/rest-delivery-points"))

    def create_rest_delivery_point(self, definition: Mapping[str, object]) -> RestDeliveryPointView:
        """Create a REST delivery point."""
        return read_view(RestDeliveryPointView, self._port.ask("POST", "/rest-delivery-points", definition))

    def show_rest_delivery_point(self, name: str) -> RestDeliveryPointView:
        """Return one REST delivery point."""
        return read_view(RestDeliveryPointView, self._port.ask("GET", _rest_point_path(name)))

    def update_rest_delivery_point(self, name: str, changes: Mapping[str, object]) -> RestDeliveryPointView:
        """Change settings of a REST delivery point."""
        return read_view(RestDeliveryPointView, self._port.ask("PATCH", _rest_point_path(name), changes))

    def delete_rest_delivery_point(self, name: str) -> None:
        """Delete a REST delivery point."""
        self._port.ask("DELETE", _rest_point_path(name))

    def cluster(self) -> ClusterView:
        """Return the replicas of the broker."""
        return read_view(ClusterView, self._port.ask("GET", "/cluster"))

    def cluster_brokers(self) -> ClusterBrokersView:
        """Return all brokers of the cluster."""
        return read_view(ClusterBrokersView, self._port.ask("GET", "/cluster/brokers"))

    def hand_over(self, replica: str, broker: str = "") -> None:
        """Have a standby own a broker; an empty name: any that is ready, and this broker."""
        given = {name: value for name, value in (("to", replica), ("broker", broker)) if value}
        self._port.ask("POST", "/cluster/handover" + (f"?{urlencode(given)}" if given else ""))

    def add_replica(self, name: str, before: str) -> None:
        """Add a replica to those of the broker, before another one or behind all."""
        self._port.ask("PUT", _replica_path(name) + (f"?{urlencode({'before': before})}" if before else ""))

    def remove_replica(self, name: str) -> None:
        """Take a replica from those of the broker."""
        self._port.ask("DELETE", _replica_path(name))

    def replication(self) -> ReplicationView:
        """Return the two sites of the broker."""
        return read_view(ReplicationView, self._port.ask("GET", "/replication"))

    def promote_site(self, *, accept_loss: bool) -> None:
        """Have the site that is asked serve."""
        self._port.ask("POST", f"/replication/promote?accept_loss={int(accept_loss)}")

    def demote_site(self) -> None:
        """Have the site that is asked give the broker up to the other one."""
        self._port.ask("POST", "/replication/demote")

    def links(self) -> LinksView:
        """Return every link to a neighbor broker."""
        return read_view(LinksView, self._port.ask("GET", "/links"))

    def create_link(self, definition: Mapping[str, object]) -> LinkView:
        """Create a link."""
        return read_view(LinkView, self._port.ask("POST", "/links", definition))

    def show_link(self, name: str) -> LinkView:
        """Return one link."""
        return read_view(LinkView, self._port.ask("GET", _link_path(name)))

    def update_link(self, name: str, changes: Mapping[str, object]) -> LinkView:
        """Change settings of a link."""
        return read_view(LinkView, self._port.ask("PATCH", _link_path(name), changes))

    def delete_link(self, name: str) -> None:
        """Delete a link."""
        self._port.ask("DELETE", _link_path(name))

    def forget_neighbor(self, name: str, *, vpn: str = "", force: bool) -> None:
        """Delete what is kept for a neighbor broker, in one message VPN or in all."""
        where = f"&vpn={quote(vpn, safe='')}" if vpn else ""
        self._port.ask("DELETE", f"/neighbors/{quote(name, safe='')}?force={str(force).lower()}{where}")

    def bridges(self) -> BridgesView:
        """Return every bridge."""
        return read_view(BridgesView, self._port.ask("GET", "/bridges"))

    def create_bridge(self, definition: Mapping[str, object]) -> BridgeView:
        """Create a bridge."""
        return read_view(BridgeView, self._port.ask("POST", "/bridges", definition))

    def show_bridge(self, name: str) -> BridgeView:
        """Return one bridge."""
        return read_view(BridgeView, self._port.ask("GET", _bridge_path(name)))

    def update_bridge(self, name: str, changes: Mapping[str, object]) -> BridgeView:
        """Change settings of a bridge."""
        return read_view(BridgeView, self._port.ask("PATCH", _bridge_path(name), changes))

    def delete_bridge(self, name: str) -> None:
        """Delete a bridge."""
        self._port.ask("DELETE", _bridge_path(name))

    def pause_bridge(self, name: str) -> BridgeView:
        """Disconnect a bridge."""
        return read_view(BridgeView, self._port.ask("POST", _bridge_path(name) + "/pause"))

    def resume_bridge(self, name: str) -> BridgeView:
        """Connect a bridge."""
        return read_view(BridgeView, self._port.ask("POST", _bridge_path(name) + "/resume"))

    def export_definitions(self, vpns: Sequence[str], *, with_password_hashes: bool) -> dict[str, object]:
        """Return the document of what operators created, in some message VPNs or in all."""
        options = [("with_password_hashes", "true")] if with_password_hashes else []
        query = urlencode([("vpn", name) for name in vpns] + options)
        return read_view(dict[str, object], self._port.ask("GET", f"/definitions?{query}" if query else "/definitions"))

    def apply_definitions(self, document: Mapping[str, object], *, dry_run: bool, prune: bool) -> DefinitionsView:
        """Bring the gateway to what a document says, or say what that would change."""
        query = urlencode({"dry_run": str(dry_run).lower(), "prune": str(prune).lower()})
        return read_view(DefinitionsView, self._port.ask("POST", f"/definitions?{query}", document))

    def list_users(self) -> UsersView:
        """Return every user."""
        return read_view(UsersView, self._port.ask("GET", "/users"))

    def create_user(self, definition: Mapping[str, object]) -> UserView:
        """Create a user."""
        return read_view(UserView, self._port.ask("POST", "/users", definition))

    def update_user(self, name: str, changes: Mapping[str, object]) -> UserView:
        """Change a user."""
        return read_view(UserView, self._port.ask("PATCH", _user_path(name), changes))

    def delete_user(self, name: str) -> None:
        """Delete a user."""
        self._port.ask("DELETE", _user_path(name))

    def show_profile(self, kind: ProfileKind, name: str) -> ClientProfileView | AclProfileView:
        """Return one profile."""
        answer = self._port.ask("GET", f"{_profiles_path(kind)}/{quote(name, safe='')}")
        if kind is ProfileKind.ACL:
            return read_view(AclProfileView, answer)
        return read_view(ClientProfileView, answer)

    def list_profiles(self) -> ProfilesView:
        """Return every client profile and every ACL profile."""
        return read_view(ProfilesView, self._port.ask("GET", "/profiles"))

    def create_profile(self, kind: ProfileKind, definition: Mapping[str, object]) -> None:
        """Create a profile."""
        self._port.ask("POST", _profiles_path(kind), definition)

    def update_profile(self, kind: ProfileKind, name: str, changes: Mapping[str, object]) -> None:
        """Change a profile."""
        self._port.ask("PATCH", f"{_profiles_path(kind)}/{quote(name, safe='')}", changes)

    def delete_profile(self, kind: ProfileKind, name: str) -> None:
        """Delete a profile."""
        self._port.ask("DELETE", f"{_profiles_path(kind)}/{quote(name, safe='')}")


def _rest_point_path(name: str) -> str:
    return "/rest-delivery-points/" + quote(name, safe="")


def _link_path(name: str) -> str:
    return "/links/" + quote(name, safe="")


def _bridge_path(name: str) -> str:
    return "/bridges/" + quote(name, safe="")


def _profiles_path(kind: ProfileKind) -> str:
    return f"/{kind.replace('_', '-')}s"


def _user_path(name: str) -> str:
    return "/users/" + quote(name, safe="")


def _replica_path(name: str) -> str:
    return f"/cluster/replicas/{quote(name, safe='')}"
