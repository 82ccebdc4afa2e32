"""A standby that could take over, as it tells the other replicas of its broker."""

from typing import Final

from sluicegate.gateway.cluster.membership.members import STANDBY, ReplicaState

WARM: Final = ReplicaState(
    name="b",
    instance="1",
    role=STANDBY,
    epoch=7,
    position=40,
    lag_messages=2,
    lag_bytes=300,
    caught_up=True,
    release="1.0",
    lease_ms=3000,
    endpoints=(("admin", "http://127.0.0.1:8080"),),
)
