"""The compiled half of the build. Everything else about the distribution stands in pyproject.toml.

mypyc compiles the hot modules from the same sources that run uncompiled, so the outcome of a build is always one of
two: all of the modules named here are extensions, or none is. Three variables of the environment decide:

- `SLUICEGATE_PURE=1` compiles nothing;
- `SLUICEGATE_REQUIRE_EXT=1` makes it an error when compiling fails;
- with neither, a missing compiler or a type error costs a warning, and the pure package is installed.

`gateway.build` tells an installation which of the two it is.

A build takes minutes, so it says how far it has come. Its lines begin with `sluicegate: `, and `scripts/install` picks
them out of what pip prints.
"""

import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

from setuptools import setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import BaseError, CCompilerError
from setuptools.modified import newer_group

ROOT: Final = Path(__file__).resolve().parent
PACKAGE: Final = ROOT / "sluicegate"  # by its links: a module is compiled under the name that it is imported by

# Patterns below PACKAGE.
COMPILED: Final = (
    "messaging/**/*.py",  # the vocabulary and the cores: every message passes through them
    "storage/commit/*.py",  # what a commit writes: every guaranteed batch passes through the planner
    "storage/records/*.py",  # the at-rest format: one call for each message written or read back
    "actors/messages/data.py",  # what actors say to each other for each batch
    "actors/messages/router.py",  # each SUBSCRIBE makes some
    "actors/partitions/browse.py",  # an address, like inboxes: what inherits from a compiled class is compiled
    "actors/partitions/consumer_requests.py",  # credit is looked at in every turn of a partition
    "actors/partitions/jobs/*.py",  # jobs are addresses
    "actors/partitions/paging.py",
    "actors/partitions/partition.py",
    "actors/partitions/range_reads.py",  # an address as well
    "actors/partitions/triggers.py",  # each settlement wakes who waits for room
    "actors/publishing/publisher.py",
    "actors/publishing/result.py",
    "actors/publishing/retain.py",
    "actors/routing/router.py",  # each SUBSCRIBE asks it
    "actors/runtime/asks.py",  # an answer comes with each request of a client
    "actors/runtime/clock.py",
    "actors/runtime/events.py",  # what each client does is an event
    "actors/runtime/inbox.py",
    "actors/runtime/runtime.py",  # what every message between actors costs; an actor begins with each connection
    "actors/runtime/tasks.py",  # tasks stand in the dispatcher's line
    "actors/spool/actor.py",  # what is published or settled durably comes to it
    "actors/spool/stored_answer.py",
    "actors/transactions/commit.py",  # has an address
    "protocols/transport/loop/accepting.py",  # each client comes by it
    "protocols/connection/counters.py",
    "protocols/connection/write_control.py",  # every write passes it
    "protocols/connection/identity.py",  # compiled connections ask it
    "protocols/connection/message_vpns.py",  # each connection is in one
    "protocols/connection/read_control.py",  # every publish passes it
    "protocols/connection/browse_buffer.py",  # compiled browsers hold it
    "protocols/transport/loop/selector.py",  # looks at all of them
    "protocols/transport/stream.py",  # one for each connection
    "protocols/transport/loop/tcp.py",  # and one of these beneath
    "protocols/transport/interface.py",  # who is at its other end
    "protocols/transport/unfinished.py",  # every large packet is counted there
    "protocols/transport/origins.py",  # each HTTP request asks it
    "protocols/amqp/**/*.py",  # wire engines and codecs
    "protocols/flow/**/*.py",
    "protocols/http/**/*.py",
    "protocols/mqtt/**/*.py",
)

INTERPRETED: Final = {
    "**/__init__.py": "holds a docstring and names, nothing that runs",
    "protocols/flow/publishers/directory.py": "an actor: a class mypyc compiles cannot inherit from pykka.Actor",
    "protocols/flow/client/aio/*.py": "asyncio; what is decided is decided in the cores beside it",
    "protocols/flow/client/blocking/*.py": "threads and asyncio as well",
}

# What mypyc makes every C file include: declarations of all modules; to read them took a seventh of the time. gcc
# and clang take what they find precompiled beside the header; clang for several kinds of processors at once, as on
# macOS, cannot make that.
HEADER: Final = "build/__native_internal_sluicegate.h"
PRECOMPILES: Final = sys.platform == "linux"

# Commands that put modules into a build folder. pip asks for metadata twice before it builds; those calls must not
# each pay for a run of mypyc.
BUILDING: Final = frozenset({"bdist_wheel", "build", "build_ext", "develop", "editable_wheel", "install"})


def compiled_sources() -> list[str]:
    """Return the files to compile, relative to the root, in a fixed order."""
    chosen = {path for pattern in COMPILED for path in PACKAGE.glob(pattern)}
    compiled = (path for path in chosen if not any(path.match(pattern) for pattern in INTERPRETED))
    return sorted(path.relative_to(ROOT).as_posix() for path in compiled)


PROGRESS_EVERY_S: Final = 10


def say(line: str) -> None:
    """Print a line for whoever waits for the build."""
    print(f"sluicegate: {line}", flush=True)


class Progress:
    """How far a step of the build has come."""

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total  # 0: nobody knows how much there is to do
        self._done = 0
        self._lock = threading.Lock()

    def advance(self, done: int) -> None:
        """Note what is done of the total; any thread may call this."""
        with self._lock:
            self._done += done

    def __str__(self) -> str:
        return f"{self._what}: {100 * self._done // self._total} %" if self._total else self._what


@contextmanager
def progress(what: str, total: int = 0) -> Iterator[Progress]:
    """Say that a step begins, every ten seconds how far it has come, and how long it took."""
    began = time.monotonic()
    state = Progress(what, total)
    is_over = threading.Event()

    def tell() -> None:
        while not is_over.wait(PROGRESS_EVERY_S):
            say(f"{state}, {time.monotonic() - began:.0f} s")

    say(what)
    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield state
    finally:
        is_over.set()
        teller.join()
    say(f"{state}, done after {time.monotonic() - began:.0f} s")


def go_on_without(why: str) -> None:
    """Say that the pure package is built instead, or end the build when extensions are required."""
    if os.environ.get("SLUICEGATE_REQUIRE_EXT") == "1":
        sys.exit(f"sluicegate: SLUICEGATE_REQUIRE_EXT=1, but nothing could be compiled.\n{why}")
    say(f"WARNING: installing the pure package, several times slower: {why}")


def extensions() -> list[Any]:
    """Return what mypyc makes of the compiled sources, or nothing."""
    if os.environ.get("SLUICEGATE_PURE") == "1" or not BUILDING.intersection(sys.argv):
        return []
    try:
        from mypyc.build import mypycify

        # One group: calls between our modules stay direct C calls. A C file per module, so that cores share the work:
        # 2,000 lines took 12 s on two cores, against 16 s as one file. Asserts stay in: they guard the spool.
        sources = compiled_sources()
        with progress(f"translating {len(sources)} modules to C"):
            made = mypycify(
                ["--config-file", str(ROOT / "pyproject.toml"), *sources],
                opt_level="3",
                debug_level="0",
                strip_asserts=False,
                multi_file=True,
                group_name="sluicegate",
            )
    except ImportError as missing:
        go_on_without(f"mypyc is not installed: {missing}")
        return []
    except SystemExit as refused:  # how mypycify reports a type error
        go_on_without(str(refused.code))
        return []
    if os.name == "posix":
        # Else each call from one of our modules to another goes through a table, lest somebody put another function in.
        for extension in made:  # their lists of options are one and the same
            extension.extra_compile_args = [*extension.extra_compile_args, "-fvisibility=hidden"]
    return made


class BuildPy(build_py):
    """Copies modules, and first clears what an earlier build left in the folder.

    An extension goes before the source of the same name, so one left over from a build where that module was still
    compiled would run old code.
    """

    def run(self) -> None:
        """Clear the build folder of what is not going to be built, then copy."""
        build_ext_command = cast(BuildExt, self.get_finalized_command("build_ext"))
        expected = {Path(output).resolve() for output in build_ext_command.get_outputs()}
        for path in Path(self.build_lib).rglob("*"):
            if path.suffix == ".py" or (path.suffix == ".so" and path.resolve() not in expected):
                path.unlink()
        super().run()


class BuildExt(build_ext):
    """Builds all extensions or none: they share one library, half of them cannot be imported."""

    def finalize_options(self) -> None:
        """Use every core: a module costs a second or two of the C compiler."""
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def build_extensions(self) -> None:
        """Compile files side by side, and only those whose C code or headers changed."""
        compile_in_turn = self.compiler.compile
        precompiled = self.precompile() if PRECOMPILES else []
        sizes = {source: Path(source).stat().st_size for each in self.extensions for source in each.sources}

        def compile_side_by_side(sources: list[str], depends: list[str], output_dir: str, **options: Any) -> list[str]:
            options["extra_postargs"] = [*options["extra_postargs"], *precompiled]

            def compile_one(source: str) -> str:
                (made,) = self.compiler.object_filenames([source], output_dir=output_dir)
                if newer_group([source, *depends, __file__, str(ROOT / "pyproject.toml")], made):
                    compile_in_turn([source], depends=depends, output_dir=output_dir, **options)
                state.advance(sizes[source])
                return str(made)

            # The largest first, so that no core is left alone with one of them at the end.
            order = sorted(sources, key=lambda source: -sizes[source])
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                made = dict(zip(order, pool.map(compile_one, order), strict=True))
            return [made[source] for source in sources]

        with progress(f"compiling {len(sizes)} C files", sum(sizes.values())) as state:
            self.compiler.compile = compile_side_by_side
            super().build_extensions()

    def precompile(self) -> list[str]:
        """Precompile the header, and return what makes a C file begin with it, as one that is precompiled has to."""
        (library,) = [extension for extension in self.extensions if HEADER in extension.depends]
        folders = [f"-I{folder}" for folder in (*library.include_dirs, *self.compiler.include_dirs)]
        options = [*folders, *library.extra_compile_args, "-x", "c-header", HEADER, "-o", f"{HEADER}.gch"]
        self.compiler.spawn([*self.compiler.compiler_so, *options])
        return ["-include", HEADER]

    def run(self) -> None:
        """Compile; when that fails remove every extension, unless they are required."""
        try:
            super().run()
        except (BaseError, CCompilerError, OSError) as failed:  # OSError: there is no compiler
            go_on_without(f"the C compiler failed: {failed}")
            for output in self.get_outputs():
                Path(output).unlink(missing_ok=True)
            self.extensions = []


if __name__ == "__main__":
    setup(ext_modules=extensions(), cmdclass={"build_py": BuildPy, "build_ext": BuildExt})
