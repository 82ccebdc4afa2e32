"""The configuration of the node, which reloads change: declared queues, ACL, quota, limits, and delivery points.

A queue that exists is never changed or deleted by a reload; one that is declared, and does not exist, is created.
"""

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any, Final

from simulation.delivery_points import PointPlan, draw_point, draw_points
from simulation.publish_acl import FORBIDDEN_PREFIX
from simulation.scenario import TEMPORARY, Scenario
from simulation.surroundings import Surroundings
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.config.sections.admin import Admin
from sluicegate.gateway.config.sections.links import Link
from sluicegate.gateway.config.sections.message_vpns.message_vpns import Vpn
from sluicegate.gateway.config.sections.message_vpns.virtual_destinations import VirtualDestinationsSection
from sluicegate.gateway.config.sections.node import Backpressure, Http, Mqtt, Node, Queues, Spool
from sluicegate.gateway.config.sections.security.authentication import Authentication
from sluicegate.messaging.queues.definition import QueueDefinition

UNBOUNDED: Final = Vpn().usage_bytes_max
QUOTAS: Final = (0, 20_000, 200_000, UNBOUNDED, UNBOUNDED)
OTHER_ATTRIBUTES: Final[tuple[dict[str, Any], ...]] = ({}, {}, {"max_redelivery_count": 2}, {"ingress_enabled": False})
ACL_PROFILE: Final[Mapping[str, Any]] = {
    "name": "default",
    "publish_topic_default_action": "allow",
    "publish_topic_exceptions": [{"topic": f"{FORBIDDEN_PREFIX}>"}],
    "subscribe_topic_default_action": "allow",
}
LINKING_PROFILE: Final[Mapping[str, Any]] = {"name": "default", "allow_bridge_connections_enabled": True}


class Configuration:
    """What the file says that the node reads at its start and with each reload."""

    def __init__(self, seed: int, scenario: Scenario, spool: Spool, surroundings: Surroundings) -> None:
        self.points: tuple[PointPlan, ...] = draw_points(seed) if scenario.pushes else ()
        self.forbids = False  # clients may not publish on some topics
        self.quota_bytes = UNBOUNDED  # of the message VPN
        self._durable = tuple(name for name in scenario.names if name != TEMPORARY)
        self.declared = self._durable
        self._scenario = scenario
        self._spool = spool
        self._surroundings = surroundings
        self._attributes: dict[str, dict[str, Any]] = {}  # by declared queue: those that differ from the scenario's
        self._aliases_max, self._unsettled_max = Mqtt().topic_alias_maximum, Http().unsettled_max
        self._stall_ms = Backpressure().slow_subscriber_stall_ms
        self._versions_count = 1

    def config(self) -> Config:
        """Return the configuration."""
        authentication: dict[str, Any] = {"acl_profiles": [ACL_PROFILE]} if self.forbids else {}
        network: dict[str, Any] = {}
        if self._surroundings.links:
            authentication["client_profiles"] = [LINKING_PROFILE]
            links = {name: Link.model_validate(each) for name, each in self._surroundings.links.items()}
            network = {"node": Node(name=self._surroundings.broker), "links": links}
        return Config(
            admin=Admin(enabled=False),
            spool=self._spool,
            queues=Queues(declared=tuple(self._definition(name) for name in self.declared)),
            virtual_destinations=VirtualDestinationsSection.model_validate(self._scenario.virtual_destinations),
            vpn=Vpn(usage_bytes_max=self.quota_bytes),
            authentication=Authentication.model_validate(authentication),
            rest_delivery_points=tuple(each.section() for each in self.points),
            mqtt=Mqtt(topic_alias_maximum=self._aliases_max),
            http=Http(unsettled_max=self._unsettled_max),
            backpressure=Backpressure(slow_subscriber_stall_ms=self._stall_ms),
            **network,
        )

    def change(self, rng: Random) -> None:
        """Have something else in it."""
        for change in rng.sample(CHANGES, 1 + rng.randrange(2)):
            change(self, rng)

    def mend(self) -> None:
        """Allow and declare everything again."""
        self.forbids, self.quota_bytes, self.declared = False, UNBOUNDED, self._durable
        self._attributes.clear()

    def _definition(self, name: str) -> QueueDefinition:
        definition, others = self._scenario.definition(name), self._attributes.get(name, {})
        return replace(definition, config=replace(definition.config, **others)) if others else definition

    def _change_declared(self, rng: Random) -> None:
        self.declared = tuple(name for name in self._durable if rng.random() < 0.7)

    def _change_attributes(self, rng: Random) -> None:
        self._attributes = {name: rng.choice(OTHER_ATTRIBUTES) for name in self._durable}

    def _change_acl(self, rng: Random) -> None:
        self.forbids = not self.forbids

    def _change_quota(self, rng: Random) -> None:
        self.quota_bytes = rng.choice(QUOTAS)

    def _change_limits(self, rng: Random) -> None:
        self._aliases_max, self._unsettled_max = rng.choice((0, 2, 16)), rng.choice((3, 20, 1000))
        self._stall_ms = rng.choice((50, 200, 2000))

    def _change_point(self, rng: Random) -> None:
        """Change a point, take it away, or have it as it was."""
        if not self.points:
            return
        place = rng.randrange(len(self.points))
        before, self._versions_count = self.points[place], self._versions_count + 1
        deed = rng.randrange(4)
        if deed == 0:
            after = before._replace(enabled=not before.enabled, version=self._versions_count)
        elif deed == 1:
            after = before._replace(queues=before.queues[::-1], version=self._versions_count)
        else:
            after = draw_point(rng, before.name, self._versions_count)
        self.points = (*self.points[:place], after, *self.points[place + 1 :])


CHANGES: Final = (
    Configuration._change_declared,
    Configuration._change_attributes,
    Configuration._change_acl,
    Configuration._change_quota,
    Configuration._change_limits,
    Configuration._change_point,
    Configuration._change_point,
)
