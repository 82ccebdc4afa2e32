"""The container's command under the conditions of its manifest: user, no capabilities, read-only root, signals.

There need be no container engine: namespaces and a user id are the kernel's. It takes root to begin with, and an
installation that other users may read.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx
import pytest
import yaml

from sluicegate.testing.ports import free_port
from support.http.plain import HTTP
from support.operations.manifests import container, files, one
from support.processes.gateway import START_S, wait_until
from support.processes.programs import running

LISTENERS: Final = ("mqtt", "amqp", "flow", "http")
# In a mount namespace of its own: everything read-only but the volumes, then the manifest's user without rights.
AS_IN_THE_POD: Final = """
set -e
mount --make-rprivate /
mount --bind "$DATA" "$DATA"
mount --bind "$BACKUPS" "$BACKUPS"
mount -o remount,bind,ro /
exec setpriv --reuid="$USER_ID" --regid="$USER_ID" --clear-groups --no-new-privs --bounding-set=-all \
    --inh-caps=-all -- "$@"
"""


class Pod:
    """One container on folders that stand for its volumes."""

    def __init__(self, folder: Path) -> None:
        (manifest,) = files("base/statefulset.yaml")
        pod = one([manifest], "StatefulSet")["spec"]["template"]["spec"]
        self.user_id: int = pod["securityContext"]["runAsUser"]
        self.grace_s: int = pod["terminationGracePeriodSeconds"]
        self.folder = folder
        self.data = folder / "data"
        self.ports = {name: free_port() for name in LISTENERS}
        self.backups = folder / "backups"
        self.health_port, self.admin_port = free_port(), free_port()
        self._process: subprocess.Popen[str] | None = None
        self._arguments: list[str] = container([manifest])["args"]
        for name in ("data", "backups", "users"):
            (folder / name).mkdir()
            os.chown(folder / name, self.user_id, self.user_id)
        (folder / "users" / "app").write_text("a password")
        (config,) = files("base/gateway.yaml")
        config["queues"] = {"declared": [{"name": "orders", "subscriptions": ["orders/>"]}]}
        config["health"]["port"] = self.health_port
        config["admin"]["port"] = self.admin_port
        for name, port in self.ports.items():
            config["listeners"][name] |= {"port": port, "host": "127.0.0.1"}
        text = yaml.safe_dump(config)
        text = text.replace("/etc/sluicegate", str(folder)).replace("/var/lib/sluicegate-backups", str(self.backups))
        text = text.replace("/var/lib/sluicegate", str(self.data))
        (folder / "gateway.yaml").write_text(text.replace("16 GiB", "256 MiB").replace("12 GiB", "128 MiB"))

    def command(self) -> list[str]:
        arguments = [each.replace("/etc/sluicegate", str(self.folder)) for each in self._arguments]
        gateway = [sys.executable, "-P", "-m", "sluicegate", *arguments]
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", AS_IN_THE_POD, "sh", *gateway]

    def environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if key in ("PATH", "PYTHONPATH")}
        volumes = {"DATA": str(self.data), "BACKUPS": str(self.backups)}
        return kept | volumes | {"USER_ID": str(self.user_id), "PYTHONDONTWRITEBYTECODE": "1"}

    def is_ready(self) -> bool:
        try:
            return HTTP.get(f"{self.health}/health/ready", timeout=START_S).status_code == 200
        except httpx.TransportError:
            return False

    @property
    def health(self) -> str:
        return f"http://127.0.0.1:{self.health_port}"

    def waiting(self) -> int:
        """How many messages wait in the queue, by what the port for scrapers says."""
        text = HTTP.get(f"{self.health}/metrics", timeout=START_S).text
        series = 'sluicegate_queue_messages_ready{queue="orders",vpn="default"}'
        lines = [line for line in text.splitlines() if line.startswith(series)]
        return int(float(lines[0].split()[-1]))


@pytest.fixture
def pod() -> Iterator[Pod]:
    """Folders that the manifest's user can reach; those of pytest are closed to others."""
    if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("setpriv") is None:
        pytest.skip("it takes root, unshare and setpriv to be somebody else with a read-only root")
    folder = Path(tempfile.mkdtemp(prefix="sluicegate-pod-"))
    folder.chmod(0o755)
    pod = Pod(folder)
    probe = [*pod.command()[: pod.command().index("sluicegate") + 1], "version"]
    tried = subprocess.run(probe, env=pod.environment(), cwd="/", capture_output=True, text=True, timeout=START_S)
    try:
        if tried.returncode:
            pytest.skip(f"the kernel, or the folder of the installation, does not let it: {tried.stderr[-200:]}")
        yield pod
    finally:
        shutil.rmtree(folder)


def first_child(process: "subprocess.Popen[str]") -> int:
    """The pid of the gateway as the machine sees it; in its namespace it is process 1."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return int(children[0])


def test_the_container_runs_as_its_manifest_says(pod: Pod) -> None:
    """User, capabilities, root; and after SIGTERM it ends in time, with everything that was confirmed on the volume."""
    with running(pod.command(), environment=pod.environment()) as process:
        wait_until(pod.is_ready, within_s=START_S, what="/health/ready")
        gateway = first_child(process)
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{gateway}/status").read_text().splitlines())
        assert status["Uid"].split() == [str(pod.user_id)] * 4
        assert status["NSpid"].split()[-1] == "1"
        assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0
        assert status["NoNewPrivs"] == "1"
        mounts = [line.split() for line in Path(f"/proc/{gateway}/mounts").read_text().splitlines()]
        assert "ro" in [options.split(",") for _, place, _, options, *_ in mounts if place == "/"][-1]

        _publish(pod, 3)
        backup = [
            sys.executable,
            "-P",
            "-m",
            "sluicegate",
            "backup",
            "b",
            "--url",
            f"http://127.0.0.1:{pod.admin_port}",
        ]
        subprocess.run(backup, check=True, timeout=START_S)
        assert (pod.backups / "b" / "data.mdb").stat().st_uid == pod.user_id
        os.kill(gateway, signal.SIGTERM)
        assert process.wait(pod.grace_s) == 0

    with running(pod.command(), environment=pod.environment()) as process:
        wait_until(pod.is_ready, within_s=START_S, what="/health/ready")
        assert pod.waiting() == 3
        os.kill(first_child(process), signal.SIGTERM)
        assert process.wait(pod.grace_s) == 0


def _publish(pod: Pod, count: int) -> None:
    """Publish guaranteed messages as the user of the secret, and wait until each is confirmed."""
    for _ in range(count):
        answer = HTTP.post(
            f"http://127.0.0.1:{pod.ports['http']}/TOPIC/orders/eu",
            content=b"x",
            auth=("app", "a password"),
            timeout=START_S,
        )
        assert answer.status_code == 200, answer.text
