"""The tests that are left out of `make test-brokers`, which gives each gateway several brokers, and why.

Everything else in the folders that it runs holds for one broker and for several. An entry is a file, or a file and a
test.
"""

from typing import Final

ONE_BROKER: Final[dict[str, str]] = {
    "tests/interop/test_proton_transactions.py::test_a_commit_moves_everything": (
        "a transaction of AMQP settles messages of the broker that accepted the connection"
    ),
    "tests/stories/test_first_steps_on_the_command_line.py::test_continuous_commands_end_on_a_signal": (
        "the first event of a machine is that of a link between its brokers"
    ),
    "tests/stories/test_first_steps_on_the_command_line.py::test_a_refused_message_is_explained": (
        "what the queue of a topic refuses is not told to a publisher at another broker"
    ),
    "tests/stories/test_first_steps_on_the_command_line.py::test_a_second_gateway_on_the_same_data_folder_is_refused": (
        "one broker alone refuses the data folder of several before it finds it in use"
    ),
    "tests/console/test_console.py::test_the_overview_shows_queues_and_connections_as_they_change": (
        "links between brokers are connections of the flow protocol"
    ),
    "tests/console/test_console.py::test_clients_actors_events_and_explanations_are_shown": (
        "each broker has an event for its start"
    ),
    "tests/console/test_console_over_time.py::test_events_and_rates_go_on_when_the_gateway_begins_anew": (
        "each broker has an event for its start"
    ),
    "tests/console/test_console_over_time.py::test_an_explanation_answers_the_last_question": (
        "a broker hears of a new queue of another one a moment later"
    ),
    "tests/console/test_console_network.py": "a broker of another machine needs a link to each broker",
}


def why_one_broker(nodeid: str) -> str:
    """Return why a test needs a single broker; empty if it does not."""
    file, _, rest = nodeid.partition("::")
    return ONE_BROKER.get(file) or ONE_BROKER.get(f"{file}::{rest.partition('[')[0]}", "")
