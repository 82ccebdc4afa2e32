"""Texts that differ in numbers only: ids, addresses and times make each message's error another one."""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as fn

# A word of hexadecimal digits with a decimal one among them, and such as hyphens join to it. Nothing is tried twice
# (`++`, `*+`): publishers write these texts, and Java's expressions that go back keep a frame of the stack for each
# repetition. One that overflows ends the whole JVM.
_NUMBERS: Final = r"\b(?:0x)?(?=[a-fA-F]*[0-9])[0-9a-fA-F]++\b(?:-[0-9a-fA-F]++\b)*+"


def alike(text: Column) -> Column:
    """Return a text with # for each number."""
    return fn.regexp_replace(text, _NUMBERS, "#")
