"""The compiled half of the build. pyproject.toml has everything else about the distribution.

mypyc compiles the hot modules from the same sources that run uncompiled. A build compiles all modules of the list
below, or none. These environment variables decide:

- `SLUICEGATE_PURE=1` compiles nothing;
- `SLUICEGATE_REQUIRE_EXT=1` makes a failure to compile an error;
- without either, a missing compiler or a type error prints a warning, and the pure package is installed;
- `SLUICEGATE_OPT_LEVEL` is the -O of the C compiler, 3 unless it is set. CI sets g, which compiles in less time.

`gateway.build` reports which of the two an installation has.

A build takes minutes, so it prints its progress. These lines begin with `sluicegate: `, and `scripts/install` selects
them from pip's output.
"""

import os
import shlex
import shutil
import sys
import sysconfig
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
PACKAGE: Final = ROOT / "sluicegate"  # through its links: a module is compiled under its import name

# Patterns below PACKAGE.
COMPILED: Final = (
    "messaging/**/*.py",  # types and cores: every message passes through them
    "storage/commit/*.py",  # every guaranteed batch passes through the planner
    "storage/log/record.py",  # each commit is one
    "storage/log/segment.py",
    "storage/records/*.py",  # the format at rest: one call for each message written or read
    "actors/messages/data.py",  # messages between actors, for each batch
    "actors/messages/router.py",  # messages of each SUBSCRIBE
    "actors/partitions/browse.py",  # an address: subclasses of a compiled class are compiled
    "actors/partitions/consumer_requests.py",  # every turn of a partition reads credit
    "actors/partitions/jobs/*.py",  # jobs are addresses
    "actors/partitions/paging.py",
    "actors/partitions/partition.py",
    "actors/partitions/range_reads.py",  # an address
    "actors/partitions/triggers.py",  # each settlement wakes those that wait for room
    "actors/publishing/held.py",  # an address
    "actors/publishing/link_publisher.py",  # inherits from the publisher
    "actors/publishing/publisher.py",
    "actors/publishing/result.py",
    "actors/publishing/retain.py",
    "actors/publishing/rows.py",  # each batch that has several routes
    "actors/routing/router.py",  # handles each SUBSCRIBE
    "actors/runtime/asks.py",  # an answer for each request of a client
    "actors/runtime/clock.py",
    "actors/runtime/events.py",  # each action of a client is an event
    "actors/runtime/inbox.py",
    "actors/runtime/runtime.py",  # dispatches every message; each connection starts an actor
    "actors/runtime/tasks.py",  # the dispatcher runs tasks
    "actors/spool/actor.py",  # handles each durable publish and settlement
    "actors/transactions/commit.py",  # an address
    "protocols/transport/loop/acceptor.py",  # accepts each client
    "protocols/connection/counters.py",
    "protocols/connection/forwarding.py",  # each client that another broker of the machine serves
    "protocols/connection/write_control.py",  # every write passes through it
    "protocols/connection/identity.py",  # used by compiled connections
    "protocols/connection/message_vpns.py",  # each connection is in one
    "protocols/connection/read_control.py",  # every publish passes through it
    "protocols/connection/browse_buffer.py",  # used by compiled browsers
    "protocols/transport/loop/selector.py",  # polls every connection
    "protocols/transport/loop/timers.py",
    "protocols/transport/deadlines.py",  # one for each client that another broker of the machine may serve
    "protocols/transport/passing/moves.py",  # each client that another broker of the machine serves
    "protocols/transport/passing/passage.py",  # the same
    "protocols/transport/passing/passed_peer.py",  # the same
    "protocols/transport/stream/stream.py",  # one for each connection
    "protocols/transport/loop/tcp.py",  # one below each stream
    "protocols/transport/passing/relay.py",  # every message of a client that another process serves
    "protocols/transport/interface.py",  # adds up what connections receive of large data
    "protocols/transport/stream/user.py",  # the base class of connections
    "protocols/transport/unfinished.py",  # counts every large packet
    "protocols/transport/origins.py",  # checks each HTTP request
    "actors/network/*.py",  # each batch that crosses a link
    "protocols/network/**/*.py",  # the same
    "protocols/amqp/**/*.py",  # wire engines and codecs
    "protocols/flow/**/*.py",
    "protocols/http/**/*.py",
    "protocols/mqtt/**/*.py",
)

INTERPRETED: Final = {
    "**/__init__.py": "has a docstring and names, and runs nothing",
    "protocols/flow/publishers/directory.py": "an actor: a compiled class cannot inherit from pykka.Actor",
    "protocols/network/dialing/dialing.py": "asyncio's protocols are no base of compiled classes",
    "protocols/flow/client/aio/*.py": "asyncio; the decisions are made in the cores beside it",
    "protocols/flow/client/blocking/*.py": "threads and asyncio",
}

# The header that mypyc includes in every C file, with declarations of all modules. Parsing it took a seventh of the
# time. gcc and clang use a precompiled header beside it; clang cannot make one for several architectures at once, as on
# macOS.
HEADER: Final = "build/__native_internal_sluicegate.h"
PRECOMPILES: Final = sys.platform == "linux"

OPT_LEVEL: Final = os.environ.get("SLUICEGATE_OPT_LEVEL") or "3"
# It has the level of the last build. All C files depend on it, so a build with another level compiles all of them.
LAST_OPT_LEVEL: Final = ROOT / "build" / "opt_level"

# Commands that build modules. pip requests metadata twice before it builds, and these calls must not run mypyc.
BUILDING: Final = frozenset({"bdist_wheel", "build", "build_ext", "develop", "editable_wheel", "install"})


def compiled_sources() -> list[str]:
    """Return the files to compile, relative to the root, in a fixed order."""
    chosen = {path for pattern in COMPILED for path in PACKAGE.glob(pattern)}
    compiled = (path for path in chosen if not any(path.match(pattern) for pattern in INTERPRETED))
    return sorted(path.relative_to(ROOT).as_posix() for path in compiled)


PROGRESS_EVERY_S: Final = 10


def say(line: str) -> None:
    """Print a line of progress."""
    print(f"sluicegate: {line}", flush=True)


class Progress:
    """The progress of one step of the build."""

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total  # 0: unknown
        self._done = 0
        self._lock = threading.Lock()

    def advance(self, done: int) -> None:
        """Add to the completed part of the total; any thread may call this."""
        with self._lock:
            self._done += done

    def __str__(self) -> str:
        return f"{self._what}: {100 * self._done // self._total} %" if self._total else self._what


@contextmanager
def progress(what: str, total: int = 0) -> Iterator[Progress]:
    """Print the start of a step, its progress every ten seconds, and how long it took."""
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
    """Warn that the pure package is built instead, or end the build when extensions are required."""
    if os.environ.get("SLUICEGATE_REQUIRE_EXT") == "1":
        sys.exit(f"sluicegate: SLUICEGATE_REQUIRE_EXT=1, but nothing could be compiled.\n{why}")
    say(f"WARNING: installing the pure package, several times slower: {why}")


def missing_compiler() -> str | None:
    """Return the C compiler that setuptools would call, if it is not here: translating takes minutes, for nothing then.

    None if it is here, and where setuptools looks for one in its own way, as on Windows.
    """
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "")
    if not command or shutil.which(command[0]) is not None:
        return None
    return command[0]


def extensions() -> list[Any]:
    """Return the extensions that mypyc makes of the compiled sources; none for a pure build."""
    if os.environ.get("SLUICEGATE_PURE") == "1" or not BUILDING.intersection(sys.argv):
        return []
    compiler = missing_compiler()
    if compiler is not None:
        go_on_without(f"there is no C compiler: {compiler} is not on the path")
        return []
    try:
        from mypyc.build import mypycify

        # One group, so that calls between our modules are direct C calls. One C file for each module, so that cores
        # share the work: 2,000 lines took 12 s on two cores, and 16 s as one file. Asserts stay: they guard the spool.
        sources = compiled_sources()
        with progress(f"translating {len(sources)} modules to C"):
            made = mypycify(
                ["--config-file", str(ROOT / "pyproject.toml"), *sources],
                opt_level=OPT_LEVEL,
                debug_level="0",
                strip_asserts=False,
                multi_file=True,
                group_name="sluicegate",
            )
    except ImportError as missing:
        go_on_without(f"mypyc is not installed: {missing}")
        return []
    except SystemExit as refused:  # mypycify reports a type error like this
        go_on_without(str(refused.code))
        return []
    if os.name == "posix":
        # Otherwise each call between modules goes through a table, so that a library could replace the function.
        for extension in made:  # they share one list of options
            extension.extra_compile_args = [*extension.extra_compile_args, "-fvisibility=hidden"]
    remember_opt_level()
    for extension in made:
        extension.depends = [*extension.depends, str(LAST_OPT_LEVEL)]
    return made


def remember_opt_level() -> None:
    """Write the level of this build, unless the last build had the same."""
    LAST_OPT_LEVEL.parent.mkdir(exist_ok=True)
    if not LAST_OPT_LEVEL.exists() or LAST_OPT_LEVEL.read_text() != OPT_LEVEL:
        LAST_OPT_LEVEL.write_text(OPT_LEVEL)


class BuildPy(build_py):
    """Copies modules into a build folder without the files of earlier builds.

    Python prefers an extension to the source of the same name, so an extension of a module that is no longer compiled
    would run old code.
    """

    def run(self) -> None:
        """Remove files that this build does not make from the build folder, then copy."""
        build_ext_command = cast(BuildExt, self.get_finalized_command("build_ext"))
        expected = {Path(output).resolve() for output in build_ext_command.get_outputs()}
        for path in Path(self.build_lib).rglob("*"):
            if path.suffix == ".py" or (path.suffix == ".so" and path.resolve() not in expected):
                path.unlink()
        super().run()


class BuildExt(build_ext):
    """Builds all extensions or none: they share one library, so some of them alone cannot be imported."""

    def finalize_options(self) -> None:
        """Use every core: the C compiler takes a second or two for each module."""
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def build_extensions(self) -> None:
        """Compile files in parallel, and only those whose C code or headers changed."""
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

            # The largest first, so that no core compiles one alone at the end.
            order = sorted(sources, key=lambda source: -sizes[source])
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                made = dict(zip(order, pool.map(compile_one, order), strict=True))
            return [made[source] for source in sources]

        with progress(f"compiling {len(sizes)} C files", sum(sizes.values())) as state:
            self.compiler.compile = compile_side_by_side
            super().build_extensions()

    def precompile(self) -> list[str]:
        """Precompile the header, and return the options that include it first, as a precompiled header has to be."""
        (library,) = [extension for extension in self.extensions if HEADER in extension.depends]
        folders = [f"-I{folder}" for folder in (*library.include_dirs, *self.compiler.include_dirs)]
        options = [*folders, *library.extra_compile_args, "-x", "c-header", HEADER, "-o", f"{HEADER}.gch"]
        self.compiler.spawn([*self.compiler.compiler_so, *options])
        return ["-include", HEADER]

    def run(self) -> None:
        """Compile; on failure, remove every extension, unless they are required."""
        try:
            super().run()
        except (BaseError, CCompilerError, OSError) as failed:  # OSError: there is no compiler
            go_on_without(f"the C compiler failed: {failed}")
            for output in self.get_outputs():
                Path(output).unlink(missing_ok=True)
            self.extensions = []


if __name__ == "__main__":
    setup(ext_modules=extensions(), cmdclass={"build_py": BuildPy, "build_ext": BuildExt})
