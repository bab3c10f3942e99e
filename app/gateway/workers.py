"""Answers reads by asking the installation's workers, which alone have the messages, with the caller's permissions."""

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Final

import msgspec
from aiohttp import web

from app.engine.reports.reader import ProgressReader, Report
from app.serve.access.caller import FORWARDED, caller_of, forwarded
from app.serve.search.peers import PeerAnswer, Peers, PeerSilent
from app.serve.web.problem import KIND, MEDIA_TYPE, Problem
from app.serve.web.problem_types import PATH
from app.serve.web.routes import DIGITS
from app.settings.kafka import KafkaSettings
from app.settings.topics import TopicSettings

#: The maximum number of workers that are asked in turn.
_TRIES: Final = 3
#: The time for a worker's work if the request does not set it with `seconds`, and the maximum.
_SECONDS, _MOST_SECONDS = 10.0, 60.0
#: The headers of a worker's response that are passed on.
_PASSED_ON: Final = ("ETag", "Retry-After")


class Workers:
    """Asks the workers that are in the progress reports."""

    def __init__(self, kafka: KafkaSettings, topics: TopicSettings, peers: Peers) -> None:
        self._reader = ProgressReader(kafka.bootstrap, topics.progress, partitions=topics.partitions, **kafka.options())
        self._peers = peers

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

    async def show(self, request: web.Request) -> web.Response:
        """Answer a read with a worker's response; the owner of a partition in the path is asked first."""
        number = request.match_info.get("partition", "")
        is_number = number.isascii() and number.isdigit() and len(number) <= DIGITS
        return await self.answer(request, int(number) if is_number else None)

    async def answer(self, request: web.Request, partition: int | None, about: str = "any partition") -> web.Response:
        """Return a worker's response to a read, of the owner of `partition` if there is one.

        Raises Problem if no worker answers, with a sentence about the partition, or `about` any.
        """
        why, busy = f"No worker has reported {about} yet", None
        for worker in self._owners(partition):
            headers = {FORWARDED: forwarded(caller_of(request))}
            try:
                answer = await self._peers.relay(worker, request.rel_url.raw_path_qs, headers, _seconds(request))
            except PeerSilent as error:
                why = f"{worker} was asked, but {error}"
                continue
            if answer.status != HTTPStatus.SERVICE_UNAVAILABLE:
                return _response(answer)
            busy = busy or answer
        if busy is not None:
            return _response(busy)
        raise Problem("unreachable", f"{why}. Try again.")

    def _owners(self, partition: int | None) -> Iterator[str]:
        """Yield the workers to ask: the owner of a partition, then those with the newest reports."""
        reports = self.reports
        newest = sorted(reports.values(), key=lambda report: report.appended_ms, reverse=True)
        first = [report for number, report in reports.items() if number == partition]
        workers = dict.fromkeys(report.progress.worker for report in (*first, *newest))
        yield from list(workers)[:_TRIES]


def _seconds(request: web.Request) -> float:
    try:
        return min(max(float(request.query.get("seconds", _SECONDS)), _SECONDS), _MOST_SECONDS)
    except ValueError:
        return _SECONDS


def _response(answer: PeerAnswer) -> web.Response:
    headers = {name: answer.headers[name] for name in _PASSED_ON if name in answer.headers}
    response = web.Response(body=answer.body, status=answer.status, headers=headers, content_type=answer.content_type)
    if answer.content_type == MEDIA_TYPE:
        response[KIND] = str(msgspec.json.decode(answer.body)["type"]).removeprefix(PATH)
    return response
