"""The steps of a run, as data: a seed makes a list of steps, and any part of the list can be played.

A step names its actors by number, modulo the actors that exist when it is played, and carries a salt for its random
choices. So steps can be omitted, and the others still do much the same.
"""

from random import Random
from typing import NamedTuple

from simulation.scenario import scenario_of


class Step(NamedTuple):
    """One thing that happens, and how long nothing else does."""

    kind: str
    who: int
    what: int
    amount: int
    salt: int
    then_us: int

    def __str__(self) -> str:
        return f"{self.kind}(who={self.who}, what={self.what}, amount={self.amount}) then {self.then_us / 1000} ms"


# How often each kind is drawn, before a seed makes some of them more frequent and leaves others out.
WEIGHTS = {
    "publish": 30.0,
    "connect": 16.0,
    "settle": 12.0,
    "consume": 8.0,
    "subscribe": 4.0,
    "join": 4.0,
    "unsubscribe": 1.5,
    "mode": 4.0,
    "cut": 4.0,
    "close": 2.0,
    "vanish": 1.0,
    "stall": 1.5,
    "read_on": 2.0,
    "wait": 3.0,
    "job": 1.5,
    "purge": 0.7,
    "move": 1.0,
    "delete": 0.4,
    "create": 1.5,
    "ingress": 0.7,
    "egress": 0.7,
    "limit": 0.5,
    "rescale": 3.0,
    "replay": 0.7,
    "power": 1.2,
    "restart": 0.6,
    "full": 0.6,
    "room": 1.5,
    "refuse": 0.6,
    "broken": 0.2,
    "slow": 1.5,
    "damage": 0.3,
    "unreadable": 0.5,
    "break": 0.7,
}
TRANSACTIONS = {"transact": 24.0}  # in runs that have them
RETAINED = {"retain": 8.0, "look": 6.0}  # the same
RETURNS = {"return": 30.0}  # the same
RESUMES = {"resume": 30.0}  # the same
REQUESTS = {"request": 30.0}  # the same
OVERLAPS = {"overlap": 4.0}  # the same
RELOADS, PUSHES, BROWSES = {"reload": 4.0}, {"web": 8.0}, {"browse": 12.0}  # the same
ALWAYS = (
    "publish",
    "connect",
    "consume",
    "settle",
    "mode",
    "create",
    "room",
    "transact",
    "retain",
    "look",
    "return",
    "resume",
    "request",
    "overlap",
    "reload",
    "web",
    "browse",
)
PAUSES_US = (0, 0, 300, 2_000, 5_000, 20_000, 200_000, 1_500_000)


def steps_of(seed: int, count: int) -> list[Step]:
    """Return the steps of a seed. Each seed has its own taste, so that rare things meet often in some of them."""
    rng = Random(seed)
    scenario = scenario_of(seed)
    kinds_there = WEIGHTS | (TRANSACTIONS if scenario.transactions else {})
    kinds_there |= RETAINED if scenario.retains or scenario.wills else {}
    kinds_there |= (RETURNS if scenario.returns else {}) | (RESUMES if scenario.resumes else {})
    kinds_there |= (REQUESTS if scenario.requests else {}) | (OVERLAPS if scenario.overlaps else {})
    kinds_there |= (RELOADS if scenario.reloads else {}) | (PUSHES if scenario.pushes else {})
    kinds_there |= BROWSES if scenario.browses else {}
    return drawn_steps(rng, kinds_there, ["connect"] * 12 + ["consume"] * 6 + ["subscribe"] * 2, count)


def drawn_steps(rng: Random, kinds_there: dict[str, float], begin: list[str], count: int) -> list[Step]:
    """Return so many steps of kinds that are about so frequent; the first ones are given."""
    weights = {}
    for kind, weight in kinds_there.items():
        taste = rng.choice((0.0, 0.3, 1.0, 1.0, 3.0))
        weights[kind] = weight * (max(taste, 1.0) if kind in ALWAYS else taste)
    kinds = [*begin, *rng.choices(list(weights), list(weights.values()), k=count)][:count]
    return [
        Step(
            kind,
            rng.randrange(1 << 16),
            rng.randrange(1 << 16),
            rng.randrange(1 << 16),
            rng.randrange(1 << 32),
            rng.choice(PAUSES_US),
        )
        for kind in kinds
    ]
