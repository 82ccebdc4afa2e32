"""Why a gateway does not start, in words that say which setting is to be another one."""

import errno
import os
import socket

import pytest

from sluicegate.gateway.views.errors import CannotStart, opening


@pytest.mark.parametrize(
    ("error", "reason", "setting"),
    [
        (OSError(errno.EADDRINUSE, "in use"), "another program listens there", "listeners.mqtt.port"),
        (OSError(errno.EACCES, os.strerror(errno.EACCES)), "Permission denied", "listeners.mqtt.port"),
        (OSError(errno.EADDRNOTAVAIL, "none"), "that is no address of this machine", "listeners.mqtt.host"),
        (socket.gaierror(socket.EAI_NONAME, "unknown"), "that is no address of this machine", "listeners.mqtt.host"),
    ],
)
def test_a_port_that_cannot_be_had_is_named_with_the_setting_that_would_help(
    error: OSError, reason: str, setting: str
) -> None:
    with pytest.raises(CannotStart) as refused, opening("listeners.mqtt", "gate.example", 1883):
        raise error
    assert refused.value.text == f"listeners.mqtt cannot listen on gate.example:1883: {reason}"
    assert f"--set {setting}=" in refused.value.advice
