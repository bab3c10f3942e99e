"""Quotas of namespaces: pending messages, requests and remembered ids, as settings have them."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import msgspec

from app.settings.values import pairs, whole
from punctual.contract.namespaces import Namespaces, namespace_name
from punctual.contract.rate import Rate, parse_rate

#: Stands for all namespaces without a quota of their own.
OTHERS: Final = "*"


#: The default maximum of remembered ids, per pending message of the quota, and its minimum. A remembered id takes some
#: hundred bytes on disk.
_REMEMBERED, _LEAST_REMEMBERED = 1_000, 1_000_000


class Quota(msgspec.Struct, frozen=True):
    """The maximum of a namespace: pending messages, their bytes, rate of requests, and remembered ids.

    None means no limit, except that a limit of messages implies one for remembered ids.
    """

    messages: int | None = None
    bytes: int | None = None
    rate: Rate | None = None
    remembered: int | None = None

    @property
    def remembered_limit(self) -> int | None:
        """The maximum number of remembered ids, None without limit."""
        if self.remembered is not None or self.messages is None:
            return self.remembered
        return max(_LEAST_REMEMBERED, _REMEMBERED * self.messages)


_PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "messages": whole(0),
    "bytes": whole(0),
    "rate": parse_rate,
    "remembered": whole(0),
}


def quotas(text: str) -> dict[str, Quota]:
    """Parse quotas by namespace, `*` for all others: `orders=messages:100000|rate:500/s,*=bytes:1000000000`.

    Raises ValueError with a sentence.
    """
    result: dict[str, Quota] = {}
    for name, limits in pairs(text).items():
        if name != OTHERS:
            namespace_name(name)
        result[name] = _quota(name, limits)
    return result


def _quota(name: str, text: str) -> Quota:
    limits: dict[str, Any] = {}
    for part in text.split("|"):
        kind, colon, value = part.strip().partition(":")
        if not colon or kind not in _PARSERS or kind in limits:
            msg = (
                f"{name}={text[:64]}: a quota must look like messages:1000000|bytes:1073741824|rate:500/s, with each "
                "kind at most once"
            )
            raise ValueError(msg)
        try:
            limits[kind] = _PARSERS[kind](value)
        except ValueError as error:
            msg = f"{name}={kind}:{value[:64]}: {error}"
            raise ValueError(msg) from error
    return Quota(**limits)


def of_all(named: Mapping[str, Quota], namespaces: Namespaces) -> dict[str, Quota | None]:
    """Return all namespaces with their quotas, None for a namespace without one."""
    others = named.get(OTHERS)
    return {name: named.get(name, others) for name in sorted(namespaces.names)}


def by_namespace(named: Mapping[str, Quota], namespaces: Namespaces) -> dict[str, Quota]:
    """Return the quota of each namespace that has one."""
    return {name: quota for name, quota in of_all(named, namespaces).items() if quota is not None}


def senders(namespaces: Namespaces, inputs: Collection[str]) -> frozenset[str]:
    """Return the names that share limits: the namespaces and "" for messages without one, or else the input topics."""
    return namespaces.names | {""} if namespaces else frozenset(inputs)
