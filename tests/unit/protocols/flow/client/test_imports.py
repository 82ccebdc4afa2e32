"""The client library needs the standard library and nothing else, and says what types it has."""

import subprocess
import sys
from importlib.resources import files

BLOCKED = ("pykka", "lmdb", "orjson", "xxhash", "pydantic", "scramp", "httptools", "starlette", "yaml")
PROGRAM = f"""
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {BLOCKED!r}:
            raise ImportError(f"a program that uses the client library has no {{name}}")

before = set(sys.modules)
sys.meta_path.insert(0, Blocker())
sys.path[:] = {sys.path!r}
import sluicegate
sluicegate.Client
own = {{"sluicegate"}}
foreign = {{name.partition(".")[0] for name in set(sys.modules) - before}} - own - set(sys.stdlib_module_names)
broker = ("sluicegate.actors", "sluicegate.gateway", "sluicegate.pipeline", "sluicegate.storage")
print(sorted(name for name in foreign if not name.endswith("__mypyc")))
print([name for name in sys.modules if name in broker])
"""


def test_nothing_is_imported_but_the_standard_library_and_the_codec() -> None:
    """In an interpreter that finds none of what the gateway needs. mypyc's runtime comes with the package."""
    ran = subprocess.run([sys.executable, "-P", "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["[]", "[]"]


def test_its_types_are_there_for_the_programs_that_use_it() -> None:
    """PEP 561."""
    assert files("sluicegate").joinpath("py.typed").is_file()
