"""Rules at publish: which payloads the topics of a message VPN take, and what becomes of others.

A rule has topics, an action, and a function that says why a payload does not fit. `protocols.schemas` makes such
functions of schema files; the node sets the rules, at its start, with each reload, and when a file has changed.

A message without rules for its topic costs one look-up for each topic of its batch. A payload is handed to the function
as it is, and copied nowhere.
"""

from collections.abc import Callable, Mapping
from typing import Final, final

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import Headers, NativeFields, marked
from sluicegate.messaging.topics.syntax import TOPIC_REMEMBERED_CHARACTERS_MAX, TopicFilter, matches

REFUSE: Final = "refuse"  # nobody gets the message, and its publisher is told
MARK: Final = "mark"  # it is published with the user property UNFIT_RULE
COUNT: Final = "count"  # it is published as it is
FITS: Final = "fits"  # beside the actions, what can become of a message that a rule is for

UNFIT_RULE: Final = "sluicegate-unfit-rule"  # user property: the first rule that the payload does not fit
TOPICS_CACHED_MAX: Final = 4096  # of one message VPN; all are forgotten when there are more
REASON_CHARS_MAX: Final = 300  # of a schema's message, which may quote the payload


@final
class PayloadRule:
    """One rule. `problem_of` returns why a payload does not fit, empty if it does, and never raises."""

    def __init__(self, name: str, topics: list[TopicFilter], action: str, problem_of: Callable[[bytes], str]) -> None:
        self.name = name
        self.topics = topics
        self.action = action
        self.problem_of = problem_of


@final
class PayloadCheck:
    """What the rules say of one batch. Nothing is counted before `note`: a batch may be published again row by row."""

    def __init__(self, batch: MessageBatch) -> None:
        self.batch = batch  # as it is to be published
        self.refused_by = ""  # the rule that refuses it; empty: none does
        self.reason = ""  # why
        self.outcomes: dict[tuple[str, str], int] = {}  # messages, by rule and FITS or action
        self.unfit: list[str] = []  # a text for each message that is published although it does not fit

    def count(self, rule: str, outcome: str) -> None:
        """Count one message."""
        self.outcomes[rule, outcome] = self.outcomes.get((rule, outcome), 0) + 1

    def text(self) -> str:
        """Return why the batch is refused, for its publisher and for operators."""
        return f"rule {self.refused_by!r}: {self.reason}"


@final
class PayloadRules:
    """The rules of a message VPN, and how many messages they have been applied to. Shared by all its clients."""

    def __init__(self, natives: Mapping[int, NativeFields]) -> None:
        self.rules: list[PayloadRule] = []
        self.counts: dict[tuple[str, str], int] = {}  # messages, by rule and FITS or action
        self.stale_count = 0  # rules whose schema file cannot be used at present: an earlier schema is in force
        self._natives = natives
        self._by_topic: dict[str, list[PayloadRule]] = {}

    def configure(self, rules: list[PayloadRule]) -> None:
        """Replace the rules, for the next message. Counts remain."""
        self.rules = rules
        self._by_topic = {}

    def of_topic(self, topic: str) -> list[PayloadRule]:
        """Return the rules for a topic, in their order."""
        known = self._by_topic.get(topic)
        if known is None:
            known = [rule for rule in self.rules if any(matches(each, topic) for each in rule.topics)]
            if len(topic) > TOPIC_REMEMBERED_CHARACTERS_MAX:
                return known
            if len(self._by_topic) >= TOPICS_CACHED_MAX:
                self._by_topic = {}
            self._by_topic[topic] = known
        return known

    def check(self, batch: MessageBatch) -> PayloadCheck | None:
        """Check the payloads of a batch, up to the first that is refused; None: no rule is for any of its topics.

        A message that deletes a retained one has no payload, and is not checked.
        """
        check: PayloadCheck | None = None
        changed: list[Headers | None] | None = None
        payloads = batch.payloads()
        for row in range(batch.count):
            topic = batch.topic_of(row)
            rules = self.of_topic(topic)
            payload = payloads[row]
            if not rules or (batch.retain and not payload):
                continue
            if check is None:
                check = PayloadCheck(batch)
            mark = ""
            for rule in rules:
                problem = rule.problem_of(payload)[:REASON_CHARS_MAX]
                check.count(rule.name, rule.action if problem else FITS)
                if problem and rule.action == REFUSE:
                    check.refused_by, check.reason = rule.name, problem
                    return check
                if problem:
                    check.unfit.append(f"publish to {topic!r}: rule {rule.name!r} ({rule.action}): {problem}")
                    mark = mark or (rule.name if rule.action == MARK else "")
            if mark:
                if changed is None:
                    column = batch.headers()
                    changed = [None] * batch.count if column is None else list(column)
                changed[row] = marked(changed[row], [(UNFIT_RULE, mark)], self._natives)
        if check is not None and changed is not None:
            check.batch = batch.with_headers(changed)
        return check

    def note(self, check: PayloadCheck) -> None:
        """Count what became of the messages of a batch."""
        for key, count in check.outcomes.items():
            self.counts[key] = self.counts.get(key, 0) + count
