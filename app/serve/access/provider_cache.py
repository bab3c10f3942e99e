"""Caches the provider's metadata and keys: refreshed every hour, usable some more hours if the provider is down."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from app.serve.access.errors import ProviderFailed

#: A value is refreshed after the first time. While the provider is down, the old value is used up to the second.
_FRESH_S, _USABLE_S = 3_600.0, 6 * 3_600.0
#: A provider that is down is asked again after the first time, because requests would queue up behind each try. The
#: second applies while an old value can be used, and to unknown keys: anybody can send tokens that name them.
_DOWN_S, _AGAIN_S = 5.0, 30.0

_Value = TypeVar("_Value")


class Cached(Generic[_Value]):
    """One value that the provider returns."""

    def __init__(self, fetch: Callable[[], Awaitable[_Value]], initial: _Value) -> None:
        """Call `fetch`, which may raise ProviderFailed, once the value is needed; `initial` is the value until then."""
        self._fetch, self._value = fetch, initial
        self._refreshed_s = self._tried_s = -math.inf
        #: The error of the last try, if it failed.
        self._error = ""
        self._lock: Final = asyncio.Lock()

    async def get(self) -> _Value:
        """Return the value: at most an hour old, or some hours if the provider is down. Raises ProviderFailed."""
        if self._age_s < _FRESH_S or (self._usable and self._lock.locked()):
            return self._value
        async with self._lock:
            if self._age_s < _FRESH_S:
                return self._value
            try:
                return await self._refresh_unless_down()
            except ProviderFailed:
                if not self._usable:
                    raise
                return self._value

    async def newer(self, stale: _Value) -> _Value:
        """Return a newer value than the `stale` one; the same value if the provider was asked a moment ago.

        Raises ProviderFailed.
        """
        async with self._lock:
            if self._value is stale and _now_s() - self._tried_s >= _AGAIN_S:
                return await self._refresh()
            return self._value

    async def _refresh_unless_down(self) -> _Value:
        if self._error and _now_s() - self._tried_s < (_AGAIN_S if self._usable else _DOWN_S):
            raise ProviderFailed(self._error)
        return await self._refresh()

    async def _refresh(self) -> _Value:
        try:
            self._value, self._error = await self._fetch(), ""
            self._refreshed_s = _now_s()
        except ProviderFailed as error:
            self._error = str(error)
            raise
        finally:
            self._tried_s = _now_s()
        return self._value

    @property
    def _age_s(self) -> float:
        return _now_s() - self._refreshed_s

    @property
    def _usable(self) -> bool:
        return self._age_s < _USABLE_S


def _now_s() -> float:
    return asyncio.get_running_loop().time()
