"""HTTP requests for rows: the value as the body, and the header fields of a delivery or a failure callback."""

import asyncio
from typing import NamedTuple

from app.base.clock import Clock
from app.base.http import fields, signatures
from app.base.http.allow_list import Allowed
from app.base.http.signatures import SecretsFile
from app.engine.steps import occurrences
from app.settings.destinations import DestinationSettings
from app.settings.topics import TopicSettings
from punctual.contract import headers as names
from tables import Entry, keys

_JSON = "application/json"


class PostRequest(NamedTuple):
    """A request's body and header fields."""

    body: bytes
    headers: list[tuple[str, str]]


class PostWriter:
    """Makes signed HTTP requests of rows."""

    def __init__(self, topics: TopicSettings, destinations: DestinationSettings, clock: Clock, cluster: str) -> None:
        """Take the rules from the settings; `cluster` is the id of our own cluster, a part of webhook ids."""
        self._topics, self._destinations, self._clock, self._cluster = topics, destinations, clock, cluster
        self._secrets = SecretsFile(destinations.http_secrets_file)

    def allowed(self, entry: Entry) -> Allowed:
        """Return the URL of a row, if the settings still allow it.

        Raises ValueError with a clause that says why they do not.
        """
        if entry.url is not None:
            return self._destinations.callback_list(_input_of(entry)).allowed(entry.url)
        return self._destinations.url_list(_input_of(entry)).allowed(entry.to)

    def post(self, key: bytes, entry: Entry, to: Allowed) -> PostRequest:
        """Return the request for a row: key, value and user headers of a delivery, JSON of a callback."""
        body = entry.value or b""
        if entry.url is not None:
            given = [(name, fields.encoded((value or b"").decode(errors="replace"))) for name, value in entry.headers]
            own = [("Content-Type", _JSON), ("Idempotency-Key", fields.encoded(entry.source)), *given]
        else:
            own = [
                *fields.travelling(entry.headers, self._destinations.http_headers),
                ("Content-Type", fields.content_type(entry.headers)),
                (names.ID, fields.encoded(occurrences.occurrence(entry, keys.due_of(key)).id)),
                (names.DUE, str(keys.due_of(key))),
                (names.SOURCE, fields.encoded(entry.source)),
                (names.ATTEMPT, str(entry.attempts + 1)),
            ]
        return PostRequest(body, [*own, *self._signed(key, entry, to, body)])

    def _signed(self, key: bytes, entry: Entry, to: Allowed, body: bytes) -> list[tuple[str, str]]:
        """Return the header fields of Standard Webhooks, without a signature if the URL has no secret."""
        kind = "delivery" if entry.url is None else "callback"
        source = occurrences.source_of(entry, keys.due_of(key))
        # A sender chooses much of a callback's body: its receiver must not take it for a delivery.
        begins = "msg" if entry.url is None else "callback"
        id_ = signatures.webhook_id(self._cluster, self._topics.app_id, kind, source, kind=begins)
        seconds = self._clock.wall_ms() // 1000
        signed = [("webhook-id", id_), ("webhook-timestamp", str(seconds))]
        secrets = self._secrets.of(to.target, asyncio.get_running_loop().time())
        if secrets:
            signed.append(("webhook-signature", signatures.signature(secrets, id_, seconds, body)))
        return signed


def _input_of(entry: Entry) -> str:
    """Return the input topic of a row's request."""
    return entry.source.rsplit("-", 2)[0]
