"""Concurrent requests per host: no host can take the room of others, and a failing host gets few."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

#: The maximum in total, the first and the largest maximum of a host, and the maximum of all failing hosts together.
AT_ONCE, FIRST, MOST, AILING = 256, 4, 32, 64
#: Room reserved for hosts whose last response took at most QUICK_S; slow and new hosts share the rest.
KEPT, QUICK_S = 64, 1.0
#: Room that one sender always leaves to others. In the room for slow and new hosts, and for failing ones, a sender may
#: have at most as many requests as there are free places.
_LEFT = 32
#: The first pause of a failing host; each further pause is twice as long, up to the second value.
_PAUSE_S, _LONGEST_S = 0.5, 60.0
#: The maximum number of remembered hosts, because senders may choose the hosts.
_REMEMBERED = 10_000


@dataclass(slots=True)
class _Host:
    """The state of a host that has requests in flight, or has failed."""

    room: int = FIRST
    under_way: int = 0
    quick: bool = False
    failures: int = 0
    until_s: float = 0.0
    why: str = ""
    sender: str | None = None


class Hosts:
    """Room for requests, by host."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        """Begin without requests; `now_s` is the loop's clock."""
        self._now_s = now_s
        self._hosts: dict[str, _Host] = {}
        self._all = self._ailing = self._quick = 0
        #: By sender: requests in flight, and those to hosts that are not quick, and to hosts that failed last.
        self._of, self._slow_of, self._ailing_of = Counter[str](), Counter[str](), Counter[str]()
        #: The sender of each host before its first request.
        self._senders: dict[str, str] = {}

    def belongs(self, name: str, sender: str) -> None:
        """Count the requests to a host for `sender`, where there are several senders; a host's first sender counts."""
        if name not in self._senders:
            if len(self._senders) >= _REMEMBERED:
                self._senders.clear()
            self._senders[name] = sender

    def full(self, name: str) -> bool:
        """Return whether a host gets no request at the moment."""
        host = self._hosts.get(name)
        sender = self._senders.get(name) if host is None else host.sender
        if self._all >= AT_ONCE or self._has_share(sender, host):
            return True
        if (host is None or not host.quick) and self._all - self._quick >= AT_ONCE - KEPT:
            return True
        if host is None:
            return False
        if host.failures and (host.until_s > self._now_s() or self._ailing >= AILING):
            return True
        return host.under_way >= host.room

    def _has_share(self, sender: str | None, host: _Host | None) -> bool:
        """Return whether a sender has its maximum of requests for a host, so that others have room."""
        if sender is None:
            return False
        if self._of[sender] >= AT_ONCE - _LEFT:
            return True
        free, ailing = AT_ONCE - KEPT - (self._all - self._quick), AILING - self._ailing
        if (host is None or not host.quick) and self._slow_of[sender] >= free:
            return True
        return host is not None and host.failures > 0 and self._ailing_of[sender] >= ailing

    def fails(self, name: str) -> bool:
        """Return whether the last request of a host failed because of the host."""
        host = self._hosts.get(name)
        return host is not None and host.failures > 0

    def trouble(self, name: str) -> str:
        """Return why a host is paused; empty if it is not."""
        host = self._hosts.get(name)
        return host.why if host is not None and host.failures else ""

    def begin(self, name: str) -> None:
        """Take room for a request."""
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = _Host(sender=self._senders.get(name))
        self._count(host, 1)
        host.under_way += 1
        self._all += 1
        self._count_ailing(host, int(host.failures > 0))
        self._quick += host.quick

    def answered(self, name: str, took_s: float) -> None:
        """Release the room of a request that took `took_s`: the host works, and its maximum grows."""
        host = self._end(name)
        self._call_quick(host, quick=took_s <= QUICK_S)
        self._count_ailing(host, -host.under_way if host.failures else 0)
        host.failures, host.why = 0, ""
        host.room = min(MOST, host.room + 1)
        self._forget(name, host)

    def failed(self, name: str, why: str) -> float:
        """Release the room of a request that failed because of its host; return the seconds of the host's pause.

        Several requests that fail at the same time count once.
        """
        host, now = self._end(name), self._now_s()
        self._count_ailing(host, host.under_way if not host.failures else 0)
        self._call_quick(host, quick=False)
        host.room, host.why = 1, why
        if host.until_s <= now or not host.failures:
            pause_s = min(_LONGEST_S, _PAUSE_S * 2.0**host.failures) * random.uniform(0.5, 1)  # noqa: S311
            host.failures, host.until_s = host.failures + 1, now + pause_s
        left_s = host.until_s - now
        self._forget(name, host)
        return left_s

    def dropped(self, name: str) -> None:
        """Release the room of a request with an unknown outcome."""
        self._forget(name, self._end(name))

    def _end(self, name: str) -> _Host:
        host = self._hosts[name]
        self._count(host, -1)
        host.under_way -= 1
        self._all -= 1
        self._count_ailing(host, -int(host.failures > 0))
        self._quick -= host.quick
        return host

    def _call_quick(self, host: _Host, *, quick: bool) -> None:
        self._quick += host.under_way * (quick - host.quick)
        if host.sender is not None:
            self._slow_of[host.sender] -= host.under_way * (quick - host.quick)
        host.quick = quick

    def _count(self, host: _Host, number: int) -> None:
        """Add `number` to the requests in flight of the host's sender."""
        if host.sender is not None:
            self._of[host.sender] += number
            self._slow_of[host.sender] += 0 if host.quick else number

    def _count_ailing(self, host: _Host, number: int) -> None:
        """Add `number` to the requests in flight to hosts that failed last."""
        self._ailing += number
        if host.sender is not None:
            self._ailing_of[host.sender] += number

    def _forget(self, name: str, host: _Host) -> None:
        """Forget a host without requests in flight if it has no failures, or if there are too many hosts."""
        well = not host.failures and host.room <= FIRST
        if not host.under_way and (well or len(self._hosts) > _REMEMBERED):
            del self._hosts[name]
            self._senders.pop(name, None)
