"""Replicas and sites of a broker, as an admin port shows them: for tests of commands and of the console."""

from sluicegate.gateway.views.cluster import ClusterView, LogView, ReplicationView, ReplicaView


def replica(name: str, role: str, **others: object) -> ReplicaView:
    known: dict[str, object] = {
        "caught_up": True,
        "position": 9,
        "lag_messages": 0,
        "lag_bytes": 0,
        "release": "1.0",
        "hold": 7,
        "reads_level": 2,
        "endpoints": (("admin", f"http://{name}:8080"),),
        "problem": "",
    }
    return ReplicaView(name=name, role=role, **(known | others))  # type: ignore[arg-type]  # by their names


ORDERS = ClusterView(
    broker="orders",
    replica="a",
    role="standby",
    owner="b",
    epoch=7,
    stream="SLUICEGATE_orders",
    log_bytes=3 << 20,
    log_bytes_max=1 << 30,
    level=1,
    log=LogView(
        snapshot_position=7,
        snapshot_bytes=1 << 20,
        snapshot_taken_ms=1_795_820_400_000,
        bytes_behind_snapshot=2 << 20,
        last_try_ms=1_795_820_460_000,
        last_try_took_s=1.5,
        last_try_problem="the disk is full",
    ),
    clock_ahead_ms=0,
    replicas=(
        replica("a", "standby", lag_messages=12, lag_bytes=2048),
        replica("b", "owner"),
        replica("c", "away", caught_up=False, endpoints=(), problem="nothing was heard of it lately"),
    ),
)
LONDON = ReplicationView(
    broker="orders",
    replica="a",
    site="london",
    role="standby",
    epoch=3,
    mate="paris",
    mate_role="active",
    mate_epoch=3,
    lag_messages=12,
    lag_bytes=2048,
    lag_seconds=1.25,
    is_receiving=True,
    ends_with_handover=False,
    surplus=("/data/surplus-london-epoch-2.jsonl",),
    problem="",
)
