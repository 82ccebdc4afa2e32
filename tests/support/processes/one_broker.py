"""The tests that are left out of `make test-brokers`, which gives each gateway several brokers, and why.

Everything else in the folders that it runs holds for one broker and for several. An entry is a file, or a file and a
test.
"""

from typing import Final

ONE_BROKER: Final[dict[str, str]] = {
    "tests/interop/test_http_clients.py::test_the_examples_of_the_page_work": (
        "a flow of an HTTP consumer is known at the broker that accepted its connection"
    ),
    "tests/interop/test_proton_reactor.py::test_a_durable_subscription_goes_on_over_a_restart_of_the_gateway": (
        "a durable subscription of AMQP is at the broker where it was made"
    ),
    "tests/interop/test_proton_transactions.py::test_a_commit_moves_everything": (
        "a transaction of AMQP settles messages of the broker that accepted the connection"
    ),
}


def why_one_broker(nodeid: str) -> str:
    """Return why a test needs a single broker; empty if it does not."""
    file, _, rest = nodeid.partition("::")
    return ONE_BROKER.get(file) or ONE_BROKER.get(f"{file}::{rest.partition('[')[0]}", "")
