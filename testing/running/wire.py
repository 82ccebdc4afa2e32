"""What the test's process, the template and the brokers say to each other, on sockets that nobody else has."""

import pickle
import struct
from typing import Final

LENGTH: Final = struct.Struct("!I")  # of the pickle behind it
ORDER: Final = struct.Struct("!cq")  # to the template: FORK or REAP, and a process id
ANSWER: Final = struct.Struct("!q")  # of the template: the process id, or the status at the end
FORK: Final = b"F"  # two files come with it: the broker's socket, and its log
REAP: Final = b"R"


def framed(value: object) -> bytes:
    """Return a call or its result as bytes: the pickle of (name, arguments), or of (is it done, result or error)."""
    data = pickle.dumps(value)
    return LENGTH.pack(len(data)) + data
