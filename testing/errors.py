"""What goes wrong with a broker under test: it does not start or has ended, or it refuses what was asked of it."""


class BrokerFailed(RuntimeError):
    """The broker did not start, or does not run. The text has the reason, and the end of the broker's log."""


class OperationRefused(RuntimeError):
    """The broker refused an operation, such as to create a queue that exists. The text has its reason."""
