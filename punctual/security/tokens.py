"""Tokens for brokers: cached, and renewed before they expire, so that no connection waits for one."""

import logging
import threading
import time
import weakref
from functools import lru_cache
from typing import Final

from punctual.security.errors import TokenError
from punctual.security.login import OAuthClient
from punctual.security.token_endpoint import Token, ask

log = logging.getLogger(__name__)

#: The part of a token's lifetime after which the next one is requested, as in Kafka's own clients
#: (sasl.login.refresh.window.factor), and how long before its expiry a token is not used any more.
_REFRESH_AT: Final = 0.8
_SPARE_S: Final = 5.0
_AGAIN_S: Final = 5.0
#: The maximum sleep of a thread (threading.TIMEOUT_MAX limits it).
_LONGEST_S: Final = 86_400.0
_KEPT: Final = 64


class Tokens:
    """The token of one client at a token endpoint; safe for threads and event loops."""

    def __init__(self, client: OAuthClient) -> None:
        """Begin without a token: the first caller waits for one."""
        self._client = client
        self._asking = threading.Lock()
        self._text, self._ends_s = "", 0.0

    def kept(self) -> str | None:
        """Return the cached token without waiting; None if a new one must be requested."""
        return self._text if time.monotonic() < self._ends_s else None

    def get(self) -> str:
        """Return a token; waits for the endpoint if there is none. Raises TokenError."""
        with self._asking:  # callers that wait here share the new token
            return self.kept() or self._renew()

    @property
    def left_s(self) -> float:
        """The seconds for which the token may still be used."""
        return max(0.0, self._ends_s - time.monotonic())

    def _renew(self) -> str:
        asked_s = time.monotonic()
        token: Token = ask(self._client)
        spare_s = min(_SPARE_S, token.lasts_s * (1 - _REFRESH_AT) / 2)
        self._text, self._ends_s = token.text, asked_s + token.lasts_s - spare_s
        self._renew_in(token.lasts_s * _REFRESH_AT)
        return token.text

    def _renew_in(self, seconds: float) -> None:
        timer = threading.Timer(max(0.1, min(seconds, _LONGEST_S)), _renew_later, (weakref.ref(self),))
        timer.name, timer.daemon = "kafka-token", True
        timer.start()

    def renew_ahead(self) -> None:
        """Request the next token; a failure is logged and retried soon, as long as the old token is valid."""
        try:
            with self._asking:
                self._renew()
        except TokenError as error:
            log.warning("%s The old token is valid for another %.0f s.", error, self.left_s)
            if self.kept() is not None:
                self._renew_in(_AGAIN_S)


def _renew_later(tokens: "weakref.ref[Tokens]") -> None:
    there = tokens()
    if there is not None:
        there.renew_ahead()


@lru_cache(maxsize=_KEPT)
def tokens_of(client: OAuthClient) -> Tokens:
    """Return the cached tokens of a client."""
    return Tokens(client)
