"""Tokens for brokers: one is kept, and a new one asked for before it ends, so that no connection waits for it."""

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

#: When a new one is asked for, as a part of the time that the old one lasts: as Kafka's own clients do
#: (sasl.login.refresh.window.factor). And how long before its end one is not used any more.
_REFRESH_AT: Final = 0.8
_SPARE_S: Final = 5.0
_AGAIN_S: Final = 5.0
#: A thread sleeps at most so long: threads' waits are bounded (threading.TIMEOUT_MAX), and tokens that long are none.
_LONGEST_S: Final = 86_400.0
_KEPT: Final = 64


class Tokens:
    """The token of one client at a token endpoint; safe for threads and event loops."""

    def __init__(self, client: OAuthClient) -> None:
        """Begin without one: the first who asks waits for it."""
        self._client = client
        self._asking = threading.Lock()
        self._text, self._ends_s = "", 0.0

    def kept(self) -> str | None:
        """Return the token that is there, without waiting; None if a new one must be asked for."""
        return self._text if time.monotonic() < self._ends_s else None

    def get(self) -> str:
        """Return a token; waits for the endpoint if none is there. Raises TokenError."""
        with self._asking:  # who waits for it gets what another has asked for
            return self.kept() or self._renew()

    @property
    def left_s(self) -> float:
        """How many seconds the token may still be used."""
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
        """Ask for the next token; if there is none, say so and try again soon, as long as the old one lasts."""
        try:
            with self._asking:
                self._renew()
        except TokenError as error:
            log.warning("%s The old token lasts %.0f s more.", error, self.left_s)
            if self.kept() is not None:
                self._renew_in(_AGAIN_S)


def _renew_later(tokens: "weakref.ref[Tokens]") -> None:
    there = tokens()
    if there is not None:
        there.renew_ahead()


@lru_cache(maxsize=_KEPT)
def tokens_of(client: OAuthClient) -> Tokens:
    """Return the tokens of a client, the same for all who ask."""
    return Tokens(client)
