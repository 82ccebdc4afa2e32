"""The steps of a run of three brokers: those of one broker, each at one of them, and what becomes of the network."""

from random import Random
from typing import Final

from simulation.scenario import NEAR_QUEUES, OPTION_SHARE, OPTIONS, QUEUES, SOLE_QUEUES, Scenario, scenario_of
from simulation.steps import RETURNS, WEIGHTS, Step, drawn_steps

# What harms a broker beyond its crashes is for runs of one broker: here it would only hide what links do.
LEFT_OUT: Final = ("job", "damage", "break", "unreadable")
NETWORK_WEIGHTS: Final = {
    "die": 1.5,
    "strike": 3.0,
    "backup": 2.0,
    "relapse": 0.7,
    "block": 2.0,
    "one_way": 2.0,
    "slow_way": 1.5,
    "break_link": 3.0,
    "heal": 4.0,
    "calm": 1.5,
    "direct": 10.0,
    "retain": 8.0,
}
BEGIN: Final = (
    ["connect"] * 24 + ["consume"] * 12 + ["subscribe"] * 6 + ["join"] * 4 + ["direct"] * 8 + ["retain"] * 4 + ["calm"]
)
TRANSACTIONS: Final = {"transact": 60.0}  # in runs that have them; there are clients for them at each broker
STEPS_DEFAULT: Final = 400
# Of such queues the broker promises what depends on when a message was sent: it is not known when one comes by a link.
NOT_HERE: Final = ("respect_msg_priority_enabled", "max_msg_spool_usage")


def network_scenario_of(seed: int) -> Scenario:
    """Return what a seed chooses: its queues, some delays, and named publishers."""
    drawn = scenario_of(seed)
    queues = {
        name: plan if not any(each in plan.attributes for each in NOT_HERE) else QUEUES[name]
        for name, plan in drawn.queues.items()
    }
    if drawn.forwards:
        queues |= NEAR_QUEUES
    rng = Random(f"network scenario {seed}")
    elsewhere = {}
    for name, plan in SOLE_QUEUES.items():
        attributes = dict(plan.attributes)
        for option in OPTIONS[name]:
            if rng.random() < OPTION_SHARE:
                attributes |= option
        elsewhere[name] = plan._replace(attributes=attributes)
    return drawn._replace(
        queues=queues,
        elsewhere=elsewhere,
        priorities=False,
        jobs=False,
        reader="",
        selects=False,
        retains=False,
        returns=True,
        wills=False,
        resumes=False,
        requests=False,
        overlaps=False,
        reloads=False,
        pushes=False,
        browses=False,
    )


def scenario_at(scenario: Scenario, sole: set[str]) -> Scenario:
    """Return the scenario of a broker that has some of the queues that one broker has."""
    elsewhere = scenario.elsewhere
    return scenario._replace(
        queues=scenario.queues | {name: plan for name, plan in elsewhere.items() if name in sole},
        elsewhere={name: plan for name, plan in elsewhere.items() if name not in sole},
    )


def network_steps_of(seed: int, count: int) -> list[Step]:
    """Return the steps of a seed."""
    weights = {kind: weight for kind, weight in WEIGHTS.items() if kind not in LEFT_OUT}
    transactions = TRANSACTIONS if scenario_of(seed).transactions else {}
    begin = BEGIN + ["transact"] * (12 if transactions else 0)
    return drawn_steps(Random(f"network {seed}"), weights | RETURNS | NETWORK_WEIGHTS | transactions, begin, count)
