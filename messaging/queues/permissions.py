"""Who may do what with a queue: five levels, each with the rights of those before it, and an owner who has them all.

Asked of clients only: administrators have no user name here. Who a client is, is the business of authentication; a
client that did not say has the empty user name, which owns nothing.
"""

from typing import Final

from sluicegate.messaging.queues.attributes import CONSUME, DELETE, MODIFY_TOPIC, NO_ACCESS, READ_ONLY
from sluicegate.messaging.queues.definition import QueueConfig

ANONYMOUS: Final = ""  # the user name of a client that gave none; the owner of a queue that has none is nobody
LEVELS: Final = (NO_ACCESS, READ_ONLY, CONSUME, MODIFY_TOPIC, DELETE)  # cumulative [Solace 4.3]


def permits(config: QueueConfig, user: str, needed: str) -> bool:
    """Return whether a user has the rights of the level `needed` on a queue."""
    if user != ANONYMOUS and user == config.owner:
        return True
    return LEVELS.index(config.permission) >= LEVELS.index(needed)


def denial(config: QueueConfig, user: str, needed: str) -> str:
    """Return the text of the refusal: what was wanted, and what there is."""
    who = f"user {user!r}" if user != ANONYMOUS else "a client without user name"
    return f"403 Permission Denied: {who} has {config.permission!r} on queue {config.name!r}, and {needed!r} is needed"
