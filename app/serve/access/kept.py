"""What the provider tells and is kept: asked for anew once in a while, and held on to while the provider is away."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from app.serve.access.errors import ProviderFailed

#: It is asked for anew after this long; what is told holds for longer while the provider is away, but not for good.
_KEPT_S, _HELD_S = 3_600.0, 6 * 3_600.0
#: A provider that is away is not asked before this long: who waits for it would wait in a queue. The second is for what
#: can be done without: something that is held, or is not known, which tokens could be at anybody's pleasure.
_AWAY_S, _AGAIN_S = 5.0, 30.0

_Told = TypeVar("_Told")


class Kept(Generic[_Told]):
    """One thing that the provider tells."""

    def __init__(self, ask: Callable[[], Awaitable[_Told]], nothing: _Told) -> None:
        """Ask by `ask`, which raises ProviderFailed, when somebody needs it; until then there is `nothing`."""
        self._ask, self._told = ask, nothing
        self._told_s = self._tried_s = -math.inf
        #: Why the last try has failed, if it has.
        self._why = ""
        self._turn: Final = asyncio.Lock()

    async def get(self) -> _Told:
        """Return what was told within the hour, or hours ago if the provider is away. Raises ProviderFailed."""
        if self._age_s < _KEPT_S or (self._held and self._turn.locked()):
            return self._told
        async with self._turn:
            if self._age_s < _KEPT_S:
                return self._told
            try:
                return await self._anew_unless_away()
            except ProviderFailed:
                if not self._held:
                    raise
                return self._told

    async def newer(self, known: _Told) -> _Told:
        """Return what is told now if what is known is of no use; the same if that was asked for lately.

        Raises ProviderFailed.
        """
        async with self._turn:
            if self._told is known and _now_s() - self._tried_s >= _AGAIN_S:
                return await self._anew()
            return self._told

    async def _anew_unless_away(self) -> _Told:
        if self._why and _now_s() - self._tried_s < (_AGAIN_S if self._held else _AWAY_S):
            raise ProviderFailed(self._why)
        return await self._anew()

    async def _anew(self) -> _Told:
        try:
            self._told, self._why = await self._ask(), ""
            self._told_s = _now_s()
        except ProviderFailed as error:
            self._why = str(error)
            raise
        finally:
            self._tried_s = _now_s()
        return self._told

    @property
    def _age_s(self) -> float:
        return _now_s() - self._told_s

    @property
    def _held(self) -> bool:
        return self._age_s < _HELD_S


def _now_s() -> float:
    return asyncio.get_running_loop().time()
