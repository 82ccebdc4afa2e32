"""Reports a job's batches to the gateway, for its metrics: over the admin port, under the job's cursor.

An unreported batch is missing only from the gateway's sums, so a failure is logged and the job continues.
"""

import json
import logging
from base64 import b64encode
from http.client import HTTPException
from typing import Final
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from pyspark_sluicegate.options import OptionError, secret_of
from pyspark_sluicegate.reading.checkpoint import ours_among
from pyspark_sluicegate.reading.offsets import Offset
from sluicegate.pipeline.run.progress import UNDECODABLE, observed_count

ANSWER_WITHIN_S: Final = 5.0
BATCH_MS: Final = "triggerExecution"  # what Spark calls the time of a batch as a whole

_log: Final = logging.getLogger("pipeline")


class BatchFigures(StreamingQueryListener):
    """Reports each batch with rows."""

    def __init__(
        self, job: str, admin_url: str, *, vpn: str = "", username: str = "", credential_ref: str = ""
    ) -> None:
        self._job = job
        self._admin_url = admin_url.rstrip("/")
        self._query = "?" + urlencode({"vpn": vpn}) if vpn else ""  # without: the message VPN `default`
        self._username = username
        self._credential_ref = credential_ref  # looked up each time: secrets change

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802, Spark's name
        """Do nothing: there is no batch yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802, Spark's name
        """Report the batch, under each cursor that it used."""
        progress = event.progress
        if progress.numInputRows == 0:
            return
        for source in progress.sources:
            for offset in ours_among([source.endOffset or ""]):
                figures = {
                    "job": self._job,
                    "reference": f"{progress.id}/{progress.batchId}",
                    "rows_count": source.numInputRows,
                    "undecodable_count": observed_count(progress, UNDECODABLE),
                    "duration_ms": progress.durationMs.get(BATCH_MS, 0),
                }
                self._put(offset, figures)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802, Spark's name
        """Do nothing: there was no batch."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802, Spark's name
        """Do nothing: the last batch is reported already."""

    def _put(self, offset: Offset, figures: dict[str, object]) -> None:
        path = f"/queues/{quote(offset.queue, safe='')}/cursors/{quote(offset.cursor, safe='')}/batch{self._query}"
        body = json.dumps(figures).encode()
        try:
            headers = {"Content-Type": "application/json", **self._authorization()}
            request = Request(self._admin_url + path, body, headers, method="PUT")
            with urlopen(request, timeout=ANSWER_WITHIN_S):
                pass
        except (OSError, HTTPException, OptionError) as error:
            _log.warning("the gateway at %s was not told of batch %s: %s", self._admin_url, figures["reference"], error)

    def _authorization(self) -> dict[str, str]:
        """Return the header that authenticates the job; without a user name by a token. Raises OptionError."""
        if not self._credential_ref:
            return {}
        secret = secret_of(self._credential_ref)
        if not self._username:
            if not (secret.isascii() and secret.isprintable()):  # else the error would be one that quotes the header
                raise OptionError(f"credentialRef {self._credential_ref} leads to no token")
            return {"Authorization": f"Bearer {secret}"}
        return {"Authorization": "Basic " + b64encode(f"{self._username}:{secret}".encode()).decode()}
