"""Asks the installation's workers for pending messages, which only they have."""

from collections.abc import Mapping
from typing import Any

import msgspec

from app.engine.reports.reader import ProgressReader, Report
from app.serve.search.peers import Peers, PeerSilent
from app.serve.search.row import Row
from app.serve.search.search import LOCAL
from app.serve.web.problem import RETRY_AFTER, Problem
from app.settings.kafka import KafkaSettings
from app.settings.process import ProcessSettings
from app.settings.topics import TopicSettings
from app.settings.web import WebSettings
from punctual.contract.home import home_partition


class Workers:
    """Asks the worker that serves an ID's home partition, according to the progress reports."""

    def __init__(self, kafka: KafkaSettings, topics: TopicSettings, web: WebSettings, process: ProcessSettings) -> None:
        """Prepare to read the reports; start() begins."""
        self._topics = topics
        self._reader = ProgressReader(
            kafka.bootstrap,
            topics.progress,
            partitions=topics.partitions,
            **kafka.options(),
        )
        self._peers = Peers(dict, "", web.secret, process.tls_cert)

    @property
    def reports(self) -> Mapping[int, Report]:
        """The latest report of each partition."""
        return self._reader.reports

    async def start(self) -> None:
        """Start reading the workers' reports."""
        await self._reader.start()

    async def close(self) -> None:
        """Stop reading, and close the connections."""
        await self._reader.stop()
        await self._peers.close()

    async def message(self, id_: str) -> Row | None:
        """Return the pending message with an ID, or None. Raises Problem if its worker does not answer."""
        home = home_partition(id_, self._topics.inputs, self._topics.partitions)
        report = self._reader.reports.get(home)
        if report is None:
            sentence = f"No worker has reported partition {home} of this ID yet. Try again."
            raise Problem("unreachable", sentence, headers=RETRY_AFTER)
        owner = report.progress.worker
        try:
            found: Any = await self._peers.ask(owner, f"{LOCAL}/message", {"id": id_, "whole": "1"})
        except PeerSilent as error:
            sentence = f"{owner} serves partition {home} of this ID, but {error}. Try again."
            raise Problem("unreachable", sentence, headers=RETRY_AFTER) from error
        return None if found is None else msgspec.convert(found, Row)
