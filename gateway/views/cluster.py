"""Views of a broker with replicas: who owns it, and how far the others are."""

from dataclasses import dataclass
from typing import Final

NO_REPLICAS: Final = "this broker has no replicas: its configuration names no cluster.servers"

NO_MATE: Final = "this broker has one site: its configuration names no cluster.replication.mate"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """One replica, as the others hear of it."""

    name: str
    role: str  # `owner`, `standby`, `taking over`, `starting`, or `away`: nothing was heard of it lately
    caught_up: bool  # it could take over at once
    position: int  # number of the last record that it has
    lag_messages: int  # of the stream that it has not read
    lag_bytes: int
    hold: int  # the first record for which the log waits; 0: it does not wait for this replica
    release: str
    reads_level: int  # the highest feature level of a log that it reads; 0: it has not said so
    endpoints: tuple[tuple[str, str], ...]  # name and URL of its open ports
    problem: str  # why it cannot take over


@dataclass(frozen=True, slots=True, kw_only=True)
class LogView:
    """How the log of a broker is kept short, as a replica has looked at it last."""

    snapshot_position: int  # number of the last record of the newest snapshot; 0: there is none
    snapshot_bytes: int
    snapshot_taken_ms: int  # Unix time; 0: there is none
    bytes_behind_snapshot: int  # of the log, about
    last_try_ms: int  # Unix time at which this replica has last made a snapshot, or failed; 0: never
    last_try_took_s: float
    last_try_problem: str  # why that failed; empty if it did not


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """A broker and its replicas, as one of these knows them."""

    broker: str
    replica: str  # who says this
    role: str  # its own
    owner: str  # name of the replica that owns the broker; empty: none is known
    epoch: int  # of the ownership
    stream: str  # that has the log
    log_bytes: int  # of the stream
    log_bytes_max: int
    level: int  # feature level of the log: releases that read less cannot read it
    log: LogView | None  # None: the replica has not looked yet
    clock_ahead_ms: int  # of this machine, against the time of the log; 0 when it is believed
    replicas: tuple[ReplicaView, ...]  # those first that shall own the broker rather than others


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterBrokerView:
    """One broker of the cluster, as its replicas say when they are asked."""

    broker: str
    owner: str  # name of the replica that owns the broker; empty: none is known
    epoch: int  # of the ownership
    preferred: str  # replica that shall own it instead, and could; empty: the owner is to stay
    replicas: tuple[ReplicaView, ...]  # those first that shall own the broker rather than others


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterBrokersView:
    """All brokers of a cluster."""

    brokers: tuple[ClusterBrokerView, ...]  # by name


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationView:
    """The two sites of a broker, as one replica knows them."""

    broker: str
    replica: str  # who says this
    site: str  # its own
    role: str  # of that site: `active`, `demoting` or `standby`
    epoch: int  # of the sites, as this one knows it: one more with each promotion
    mate: str  # the other site
    mate_role: str  # empty: it does not answer
    mate_epoch: int
    lag_messages: int | None  # of the log, that the standby site does not have; null: not known
    lag_bytes: int | None  # about
    lag_seconds: float | None  # since the oldest of them was stored
    is_receiving: bool  # this replica receives the mate's log
    ends_with_handover: bool  # the log that this site has gives the broker up to it: it may be promoted without a loss
    surplus: tuple[str, ...]  # files with what this site alone had when the other one was promoted
    problem: str  # empty: all is well
