"""Ids that count no more though they have not expired: sessions that have ended, sign-ins that are done."""

from collections import OrderedDict
from typing import Final

_MOST: Final = 20_000
#: An id is short; nothing longer is kept.
_LONGEST: Final = 64


class Spent:
    """Ids, the newest ones of them if there are very many, each for so many seconds."""

    def __init__(self, kept_s: float) -> None:
        """Keep each for `kept_s`, after which it has expired anyway."""
        self._kept_s = kept_s
        self._ids: OrderedDict[str, float] = OrderedDict()

    def add(self, id_: str, now_s: float) -> bool:
        """Keep an id; return whether it is new."""
        if len(id_) > _LONGEST:
            return False
        new = id_ not in self._ids
        self._ids.setdefault(id_, now_s)
        while self._ids and (len(self._ids) > _MOST or next(iter(self._ids.values())) + self._kept_s < now_s):
            self._ids.popitem(last=False)
        return new

    def __contains__(self, id_: str) -> bool:
        return id_ in self._ids
