"""The walk over LMDB's trees: silent about every file that LMDB wrote, and it finds what a flipped bit breaks."""

import random
import struct
from contextlib import suppress
from pathlib import Path

import lmdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.storage.errors import StoreFailed
from sluicegate.storage.integrity.pages import HEADER_BYTES, DataFile, check_header
from sluicegate.storage.integrity.walk import FREE_LIST, NAMES, TreeDamage, walk_trees
from support.storage.tree_files import tree_pages, walked

TABLES = ("journal", "pages", "sessions")
SIZES = (0, 3, 50, 300, 3000, 40_000)


def write(folder: Path, seed: int, commits_count: int) -> Path:
    """Put and delete rows of all sizes, in several tables; return the data file."""
    rng = random.Random(seed)
    with lmdb.open(str(folder), map_size=1 << 28, max_dbs=8) as env:
        tables = [env.open_db(name.encode()) for name in TABLES]
        for _ in range(commits_count):
            with env.begin(write=True) as txn:
                for _ in range(40):
                    table, key = rng.choice(tables), rng.randbytes(rng.randint(1, 40))
                    if rng.random() < 0.7:
                        txn.put(key, rng.randbytes(rng.choice(SIZES)), db=table)
                    else:
                        with txn.cursor(db=table) as cursor:
                            if cursor.set_range(key):
                                cursor.delete()
            if rng.random() < 0.02:
                with env.begin(write=True) as txn:
                    txn.drop(rng.choice(tables), delete=False)
    return folder / "data.mdb"


def churn(folder: Path, seed: int, commits_count: int) -> None:
    """Write as LMDB's own corners want it, and walk over each commit.

    Large values shrink within a transaction, some thousand pages become free in one while a reader holds those before,
    and transactions give back what they took.
    """
    rng = random.Random(seed)
    keys = [b"%04d" % number for number in range(300)]
    with lmdb.open(str(folder), map_size=1 << 28, max_dbs=8) as env:
        tables = [env.open_db(name.encode()) for name in TABLES]
        reader = None
        for _ in range(commits_count):
            with env.begin(write=True) as txn:
                table, shape = rng.choice(tables), rng.random()
                for key in rng.sample(keys, rng.choice((1, 20, 300))):
                    if shape < 0.3:
                        txn.delete(key, db=table)
                        continue
                    txn.put(key, bytes(rng.choice((100, 2000, 9000, 30_000))), db=table)
                    if shape < 0.6:
                        txn.put(key, bytes(rng.choice((0, 2500, 5000))), db=table)
                    if shape > 0.9:
                        txn.delete(key, db=table)
            if reader is not None and rng.random() < 0.3:
                reader.abort()
                reader = None
            elif reader is None and rng.random() < 0.3:
                reader = env.begin()
            assert walk_trees(folder / "data.mdb") == []
        if reader is not None:
            reader.abort()


@pytest.mark.parametrize("seed", range(6))
def test_each_commit_of_a_busy_file_is_whole(seed: int, tmp_path: Path) -> None:
    churn(tmp_path, seed, 40)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a data file with branches, leaves, large values and a free list."""
    return write(tmp_path_factory.mktemp("sound"), 1, 60).read_bytes()


@pytest.fixture
def file(tmp_path: Path, sound: bytes) -> Path:
    """A copy of it."""
    path = tmp_path / "data.mdb"
    path.write_bytes(sound)
    return path


def flip(path: Path, offset: int, bit: int = 0) -> None:
    """Flip one bit of a file."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 1 << bit
    path.write_bytes(data)


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_found_in_what_lmdb_wrote(tmp_path: Path, seed: int) -> None:
    path = write(tmp_path, seed, 30 + 40 * seed)
    assert walk_trees(path) == []
    walk = walked(path)
    assert not any(used and freed for used, freed in zip(walk.used, walk.freed, strict=True))
    assert all(used or freed for used, freed in zip(walk.used, walk.freed, strict=True)), "each page is in use, or free"


@settings(max_examples=150, deadline=None)
@given(which=st.integers(0, 1 << 20), place=st.integers(0, 1 << 12), bit=st.integers(0, 7))
def test_a_flipped_bit_in_the_header_or_the_offsets_of_a_page_in_use_is_found(
    tmp_path_factory: pytest.TempPathFactory, sound: bytes, which: int, place: int, bit: int
) -> None:
    path = tmp_path_factory.mktemp("flipped") / "data.mdb"
    path.write_bytes(sound)
    pages = [number for number, _ in tree_pages(path)]
    number = pages[which % len(pages)]
    with DataFile(path) as data_file:
        page = data_file.page(number)
        check_header(page, number)
    lower = struct.unpack_from("<H", page, 12)[0]
    offsets = [offset for offset in range(lower) if offset not in (8, 9)]  # a pad that LMDB neither writes nor reads
    offset = offsets[place % len(offsets)]
    flip(path, number * len(page) + offset, bit)
    assert any(damage.page == number for damage in walk_trees(path)), f"page {number}, byte {offset} of {lower}"


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_whatever_is_broken_the_walk_comes_to_its_end(
    tmp_path_factory: pytest.TempPathFactory, sound: bytes, data: st.DataObject
) -> None:
    """No signal, no loop, no error but the one for a file that is none."""
    path = tmp_path_factory.mktemp("broken") / "data.mdb"
    broken = bytearray(sound)
    for _ in range(data.draw(st.integers(1, 30))):
        offset = data.draw(st.integers(0, len(broken) - 1))
        patch = data.draw(st.binary(min_size=1, max_size=64))
        broken[offset : offset + len(patch)] = patch
    path.write_bytes(broken[: data.draw(st.integers(0, len(broken)))])
    with suppress(StoreFailed):  # both meta pages are broken
        walk_trees(path)


def test_a_zeroed_leaf_is_found_with_the_keys_that_hung_there(file: Path) -> None:
    walk = walked(file)
    leaf = walk.trees["sessions"].leaves[1]
    with file.open("r+b") as raw:
        raw.seek(leaf * 4096)
        raw.write(bytes(4096))
    damage = walk_trees(file)[0]
    assert (damage.table, damage.page) == ("sessions", leaf)
    assert damage.first
    assert damage.end is not None
    assert damage.first < damage.end


def test_a_page_that_is_free_and_in_use_is_found(file: Path) -> None:
    """LMDB would write over it at one of the next commits."""
    walk = walked(file)
    taken = walk.trees["pages"].leaves[0]
    data = bytearray(file.read_bytes())
    leaf = walk.trees[FREE_LIST].leaves[0]
    with DataFile(file) as data_file:
        page = data_file.page(leaf)
    offset = struct.unpack_from("<H", page, HEADER_BYTES)[0] + 8 + 8 + 8  # node, key, count: the first free page
    struct.pack_into("<Q", data, leaf * 4096 + offset, taken)
    file.write_bytes(data)
    assert TreeDamage(
        FREE_LIST, leaf, f"page {taken} is said to be free, and is in use", page[offset - 16 : offset - 8]
    ) in (walk_trees(file))


def test_a_root_that_counts_other_entries_is_found(file: Path) -> None:
    walk = walked(file)
    leaf = walk.trees[NAMES].leaves[0]
    data = bytearray(file.read_bytes())
    entries = struct.pack("<Q", walk.trees["journal"].entries)
    offset = data.index(entries + struct.pack("<Q", walk.trees["journal"].root.root), leaf * 4096)
    data[offset] ^= 1
    file.write_bytes(data)
    assert [each.table for each in walk_trees(file)] == ["journal"]


def test_a_file_cut_short_is_found(file: Path) -> None:
    size = file.stat().st_size
    with file.open("r+b") as raw:
        raw.truncate(size // 2)
    assert f"it has {size // 2} bytes of {size}" in [each.problem for each in walk_trees(file)]


def test_a_damaged_meta_page_is_found_and_the_other_one_taken(file: Path) -> None:
    flip(file, 16)
    damages = walk_trees(file)
    assert damages[0].problem.startswith("meta page 0: it begins with")


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.mdb"
    path.write_bytes(b"#!/bin/sh\n" * 2000)
    with pytest.raises(StoreFailed, match="no database of LMDB"):
        walk_trees(path)
