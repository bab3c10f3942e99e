"""How much namespaces may have waiting and ask for, as settings say it."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from app.settings_values import pairs, whole
from punctual.contract.namespaces import Namespaces, namespace_name
from punctual.contract.rate import Rate, parse_rate

#: What stands for each namespace that is not named.
OTHERS: Final = "*"


class Quota(msgspec.Struct, frozen=True):
    """The most of one namespace: messages that wait, their bytes, and requests by time. None is without end."""

    messages: int | None = None
    bytes: int | None = None
    rate: Rate | None = None


_PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {"messages": whole(0), "bytes": whole(0), "rate": parse_rate}


def quotas(text: str) -> dict[str, Quota]:
    """Return quotas by namespace, `*` for each other: `orders=messages:100000|rate:500/s,*=bytes:1000000000`.

    Raises ValueError with a sentence.
    """
    found: dict[str, Quota] = {}
    for name, said in pairs(text).items():
        if name != OTHERS:
            namespace_name(name)
        found[name] = _quota(name, said)
    return found


def _quota(name: str, said: str) -> Quota:
    limits: dict[str, Any] = {}
    for part in said.split("|"):
        kind, colon, value = part.strip().partition(":")
        if not colon or kind not in _PARSERS or kind in limits:
            msg = f"{name}={said[:64]}: a quota is written as messages:1000000|bytes:1073741824|rate:500/s, each once"
            raise ValueError(msg)
        try:
            limits[kind] = _PARSERS[kind](value)
        except ValueError as error:
            msg = f"{name}={kind}:{value[:64]}: {error}"
            raise ValueError(msg) from error
    return Quota(**limits)


def of_all(named: Mapping[str, Quota], namespaces: Namespaces) -> dict[str, Quota | None]:
    """Return each namespace that there is with its quota, None if it has none."""
    others = named.get(OTHERS)
    return {name: named.get(name, others) for name in sorted(namespaces.names)}


def by_namespace(named: Mapping[str, Quota], namespaces: Namespaces) -> dict[str, Quota]:
    """Return the quota of each namespace that has one."""
    return {name: quota for name, quota in of_all(named, namespaces).items() if quota is not None}
