"""The label of this replica's pod on Kubernetes that says whether it owns the broker: services select by it.

The pod changes its own label, with the token of its service account. That needs a role with `patch` on this one pod.
"""

import asyncio
import logging
import ssl
from collections.abc import Mapping
from contextlib import closing
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Final, NamedTuple, final

import orjson

from sluicegate.gateway.views.errors import CannotStart

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
ANSWER_S: Final = 5.0
AGAIN_S: Final = 1.0

log = logging.getLogger("sluicegate.cluster")


class Pod(NamedTuple):
    """This process's pod, and where its label is changed."""

    name: str
    namespace: str
    host: str
    port: int
    folder: Path  # with token and authority of the service account


def own_pod(environment: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> Pod:
    """Return the pod of this process. Raises CannotStart outside of one, or without a token."""
    name = environment.get("POD_NAME") or environment.get("HOSTNAME", "")
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
    try:
        namespace = (folder / "namespace").read_text().strip()
        (folder / "token").read_text()
    except OSError as error:
        advice = "In a pod: automountServiceAccountToken. Elsewhere: leave cluster.pod_label empty."
        raise CannotStart(
            f"cluster.pod_label: there is no token of a service account: {error}", advice=advice
        ) from None
    if not name or not host:
        raise CannotStart("cluster.pod_label: POD_NAME or KUBERNETES_SERVICE_HOST is not set")
    return Pod(name, namespace, host, int(port), folder)


@final
class PodLabel:
    """The label, which follows the role of the replica as soon as the API server takes it."""

    def __init__(self, pod: Pod, label: str) -> None:
        self._pod: Final = pod
        self._label: Final = label
        self._wanted: str | None = None
        self._task: asyncio.Task[None] | None = None

    def follow(self, *, is_owner: bool) -> None:
        """Have the label say whether this replica owns the broker."""
        self._wanted = "true" if is_owner else "false"
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._keep_trying())

    async def _keep_trying(self) -> None:
        """Change it until it is as wanted. One request at a time: an older one must not be the last."""
        problem, told = "", None
        while told != self._wanted:
            value = self._wanted
            assert value is not None
            try:
                await asyncio.to_thread(self._patch, value)
            except (OSError, HTTPException) as error:
                if str(error) != problem:
                    problem = str(error)
                    log.warning("the label %s of pod %s cannot be changed: %s", self._label, self._pod.name, problem)
                await asyncio.sleep(AGAIN_S)
            except Exception:
                log.exception("task 'pod label' has ended; it is begun again")
                await asyncio.sleep(AGAIN_S)
            else:
                told = value

    def _patch(self, value: str) -> None:
        """Change the label. Raises OSError, also for a refusal, and HTTPException."""
        pod = self._pod
        context = ssl.create_default_context(cafile=pod.folder / "ca.crt")
        token = (pod.folder / "token").read_text().strip()  # Kubernetes renews it
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/merge-patch+json"}
        body = orjson.dumps({"metadata": {"labels": {self._label: value}}})
        with closing(HTTPSConnection(pod.host, pod.port, timeout=ANSWER_S, context=context)) as connection:
            connection.request("PATCH", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}", body, headers)
            answer = connection.getresponse()
            said = answer.read()
        if answer.status != 200:
            raise OSError(f"the API server answers {answer.status}: {said[:200].decode(errors='replace')}")
