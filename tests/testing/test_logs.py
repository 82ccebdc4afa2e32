"""The log of brokers on threads is that of Python's logging."""

import logging

from sluicegate.testing import Broker


def test_the_level_of_the_logger_is_what_it_was_when_the_last_broker_on_a_thread_has_ended() -> None:
    logger = logging.getLogger("sluicegate")
    before = logger.level
    one, other = Broker(thread=True), Broker(thread=True)
    one.start()
    other.start()
    one.close()
    other.create_queue("orders")
    assert "Queue orders created" in other.log()
    other.close()
    assert (logger.level, len(logger.handlers)) == (before, 0)
