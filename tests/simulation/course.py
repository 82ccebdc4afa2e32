"""What all brokers of a run have in common: the order of events, the messages, and how much has gone wrong."""

from simulation.judge.targets import Message


class Course:
    """Time here is a count of events (`tick`), whichever broker they happen at."""

    def __init__(self) -> None:
        self.tick = 1
        self.crashes = 0  # of any broker
        self.store_faults = 0
        self.refused_tick = 0  # when a store last refused a commit
        self.messages: dict[int, Message] = {}  # by number
