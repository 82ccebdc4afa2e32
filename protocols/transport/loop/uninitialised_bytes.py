"""Bytes objects that are allocated first and filled later, in place.

Python has nothing that a socket fills and that is `bytes` in the end without a copy. Its C interface has: an object
that was just made without content may be written to, as long as nothing else refers to it.
"""

import ctypes
from typing import Final, final

_WRITABLE: Final = 0x200  # PyBUF_WRITE

_made = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_char_p, ctypes.c_ssize_t)(
    ("PyBytes_FromStringAndSize", ctypes.pythonapi)
)
_address_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(("PyBytes_AsString", ctypes.pythonapi))
_view_of = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)(
    ("PyMemoryView_FromMemory", ctypes.pythonapi)
)


@final
class UninitialisedBytes:
    """A bytes object of a given size, filled from the first byte to the last.

    The memory is not touched before: what is announced and never comes takes addresses, and no pages. `room` must not
    outlive this object.
    """

    __slots__ = ("_whole", "room")

    def __init__(self, begun: bytes | memoryview, missing_bytes: int) -> None:
        """Begin with these bytes. Raises MemoryError."""
        size = len(begun) + missing_bytes
        self._whole: bytes = _made(None, size)
        self.room: memoryview = _view_of(_address_of(self._whole), size, _WRITABLE)  # what is not filled yet
        self.room[: len(begun)] = begun
        self.filled(len(begun))

    def filled(self, count: int) -> None:
        """Note that the first `count` bytes of `room` have come."""
        self.room = self.room[count:]

    def whole(self) -> bytes:
        """Return the whole object. Nothing may be added any more."""
        assert not self.room, "nothing is missing"
        return self._whole
