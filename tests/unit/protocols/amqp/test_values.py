"""AMQP's type system (part 1): what is encoded comes back the same, and nothing but DecodeError comes out of noise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.protocols.amqp.types.decoding import DEPTH_MAX, EMPTY_ITEMS_MAX, VALUES_MAX, decode, skip
from sluicegate.protocols.amqp.types.encoding import encode
from sluicegate.protocols.amqp.types.errors import DecodeError, LocalMisuse
from sluicegate.protocols.amqp.types.values import (
    BYTE,
    CHAR,
    DECIMAL128,
    FLOAT,
    INT,
    SHORT,
    TIMESTAMP,
    UBYTE,
    UINT,
    ULONG,
    USHORT,
    UUID,
    AmqpArray,
    AmqpMap,
    AmqpValue,
    Described,
    Scalar,
    Symbol,
)


def scalars() -> st.SearchStrategy[Scalar]:
    return st.one_of(
        st.builds(Scalar, st.just(UBYTE), st.integers(0, 2**8 - 1)),
        st.builds(Scalar, st.just(USHORT), st.integers(0, 2**16 - 1)),
        st.builds(Scalar, st.just(UINT), st.integers(0, 2**32 - 1)),
        st.builds(Scalar, st.just(ULONG), st.integers(0, 2**64 - 1)),
        st.builds(Scalar, st.just(BYTE), st.integers(-(2**7), 2**7 - 1)),
        st.builds(Scalar, st.just(SHORT), st.integers(-(2**15), 2**15 - 1)),
        st.builds(Scalar, st.just(INT), st.integers(-(2**31), 2**31 - 1)),
        st.builds(Scalar, st.just(TIMESTAMP), st.integers(-(2**63), 2**63 - 1)),
        st.builds(Scalar, st.just(FLOAT), st.floats(width=32)),
        st.builds(Scalar, st.just(CHAR), st.integers(0, 0xD7FF)),
        st.builds(Scalar, st.just(UUID), st.binary(min_size=16, max_size=16)),
        st.builds(Scalar, st.just(DECIMAL128), st.binary(min_size=16, max_size=16)),
    )


SYMBOLS = st.text(st.characters(codec="ascii"), max_size=300).map(Symbol)
PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=300),
    st.binary(max_size=300),
    SYMBOLS,
    scalars(),
)
KEYS = st.one_of(st.text(max_size=20), SYMBOLS, st.integers(-(2**63), 2**63 - 1))


def maps(values: st.SearchStrategy[AmqpValue]) -> st.SearchStrategy[AmqpMap]:
    return st.dictionaries(KEYS, values, max_size=5).map(lambda found: AmqpMap(list(found.items())))


VALUES: st.SearchStrategy[AmqpValue] = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        maps(inner),
        st.builds(Described, SYMBOLS, inner),
        st.lists(SYMBOLS, max_size=5).map(lambda items: AmqpArray(0xA3, items)),
        st.lists(st.binary(max_size=300), max_size=5).map(lambda items: AmqpArray(0xB0, items)),
        st.lists(st.integers(0, 2**32 - 1), max_size=5).map(
            lambda items: AmqpArray(UINT, [Scalar(UINT, item) for item in items])
        ),
    ),
    max_leaves=20,
)


@given(value=VALUES)
def test_a_value_comes_back_as_it_was_sent(value: AmqpValue) -> None:
    """1.6: goal: every type survives. Method: encode, decode, compare; what is skipped ends at the same place."""
    data = encode(value)
    decoded, end = decode(data, 0, len(data))
    if isinstance(value, AmqpArray):  # texts travel in the narrower of two widths
        assert isinstance(decoded, AmqpArray)
        assert decoded.items == value.items
    else:
        assert encode(decoded) == data
    assert end == len(data)
    assert skip(data, 0, len(data)) == len(data)


@given(value=VALUES, cut=st.integers(0, 1000))
def test_a_value_that_is_cut_short_is_refused(value: AmqpValue, cut: int) -> None:
    """1.2: nothing outside of the bounds is read."""
    data = encode(value)
    short = data[: cut % len(data)]
    with pytest.raises(DecodeError):
        decode(short, 0, len(short))


@given(data=st.binary(max_size=200))
def test_noise_is_decoded_or_refused(data: bytes) -> None:
    """1.2: only DecodeError comes out, and both ways through a value agree on its length."""
    try:
        _, end = decode(data, 0, len(data))
    except DecodeError:
        return
    assert skip(data, 0, len(data)) == end


def test_deep_nesting_is_refused_and_does_not_end_the_interpreter() -> None:
    nested = b"\x45"
    for _ in range(DEPTH_MAX + 2):
        nested = b"\xc0" + bytes((len(nested) + 1, 1)) + nested if len(nested) < 254 else nested
    with pytest.raises(DecodeError, match="nested"):
        decode(nested, 0, len(nested))
    descriptors = b"\x00" * 100_000
    with pytest.raises(DecodeError):
        decode(descriptors, 0, len(descriptors))
    with pytest.raises(DecodeError):
        skip(descriptors, 0, len(descriptors))


def compound(constructor: int, count: int, items: bytes) -> bytes:
    """Return a list or map with its sizes in four bytes."""
    return bytes((constructor,)) + (len(items) + 4).to_bytes(4, "big") + count.to_bytes(4, "big") + items


def array(count: int, item_constructor: int, items: bytes = b"") -> bytes:
    return compound(0xF0, count, bytes((item_constructor,)) + items)


@pytest.mark.parametrize(
    ("within", "one_more"),
    [
        (compound(0xD0, VALUES_MAX, b"\x43" * VALUES_MAX), compound(0xD0, VALUES_MAX + 1, b"\x43" * (VALUES_MAX + 1))),
        (array(VALUES_MAX, 0x50, bytes(VALUES_MAX)), array(VALUES_MAX + 1, 0x50, bytes(VALUES_MAX + 1))),
        (
            compound(0xD0, 2, compound(0xD0, VALUES_MAX - 2, b"\x40" * (VALUES_MAX - 2)) + b"\x40"),
            compound(0xD0, 2, compound(0xD0, VALUES_MAX - 1, b"\x40" * (VALUES_MAX - 1)) + b"\x40"),
        ),
        (
            compound(0xD0, 1000, array(EMPTY_ITEMS_MAX, 0x43) * 1000),
            compound(0xD0, 2000, array(EMPTY_ITEMS_MAX, 0x43) * 2000),
        ),
    ],
)
def test_the_values_within_one_have_a_bound_however_they_are_nested(within: bytes, one_more: bytes) -> None:
    """A message of 30 MB that was a list of one byte each took 16 s of the node, and 2 GB."""
    decode(within, 0, len(within))
    with pytest.raises(DecodeError, match="more than are taken"):
        decode(one_more, 0, len(one_more))


@pytest.mark.parametrize(
    ("data", "what"),
    [
        ("c1 08 03 a1 01 61 43 a1 01 62", "the last key has none"),
        ("c1 09 04 a1 01 61 43 a1 01 61 43", "twice"),
        ("c0 02 05 43", "5 values"),
        ("e0 05 ff 43 00 00 00", "255 items|behind the last item"),
        ("f0 00 00 00 05 7f ff ff ff 40", "items in an array"),
        ("e0 02 41 40", "65 items in an array"),  # else a message of a megabyte were gigabytes of memory
        ("56 02", "boolean"),
        ("73 00 11 00 00", "not a Unicode character"),
        ("a1 02 ff fe", "UTF-8"),
        ("a3 01 e9", "ASCII"),
        ("3f", "unknown constructor"),
    ],
)
def test_malformed_values_are_named(data: str, what: str) -> None:
    raw = bytes.fromhex(data)
    with pytest.raises(DecodeError, match=what):
        decode(raw, 0, len(raw))


def test_a_key_that_is_there_twice_is_shown_by_its_beginning() -> None:
    pair = encode("k" * 100_000) + b"\x40"
    data = b"\xd1" + (2 * len(pair) + 4).to_bytes(4, "big") + b"\x00\x00\x00\x04" + pair + pair
    with pytest.raises(DecodeError) as refused:
        decode(data, 0, len(data))
    assert len(str(refused.value)) < 120


def test_one_and_true_are_two_keys() -> None:
    """1.6.23: keys are equal when type and value are."""
    data = encode(AmqpMap([(1, "a"), (True, "b")]))
    decoded, _ = decode(data, 0, len(data))
    assert decoded == AmqpMap([(1, "a"), (True, "b")])


@pytest.mark.parametrize("value", [Scalar(UBYTE, 256), Scalar(UINT, -1), 1 << 63, Symbol("é")])
def test_values_that_amqp_cannot_hold_are_local_misuse(value: AmqpValue) -> None:
    with pytest.raises(LocalMisuse):
        encode(value)
