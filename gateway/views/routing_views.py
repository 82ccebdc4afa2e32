"""What a node shows of virtual destinations and of a reload: frozen values, shared by admin API and command line."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DurableSelectorView:
    """What a subscriber of a virtual topic's queue selects, also while it is away."""

    queue: str
    subscriber: str  # its client id; under compat activemq the selector itself
    selectors: tuple[str, ...]  # an empty text: everything
    seen_ms: int  # wall clock: when it last bound or was set


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadView:
    """What a reload of the configuration did."""

    taken_over: tuple[str, ...]  # settings that are in force now
    restart_needed: tuple[str, ...]  # those that changed and are not
    warnings: tuple[str, ...]  # of what message VPNs declare: what is hardly meant, and what could not be made
