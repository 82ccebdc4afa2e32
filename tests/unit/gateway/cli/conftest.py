"""A shell for tests of the commands, with the admin port of the node in memory."""

import pytest

from support.operations.running_admin import RunningAdmin
from support.operations.shell import Shell


@pytest.fixture
def shell(admin: RunningAdmin) -> Shell:
    return Shell(admin.url)
