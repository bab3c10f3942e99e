"""Routes that take no messages now, and when each is tried again."""

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from app.engine.steps.route import Route

_BACKOFF_S, _BACKOFF_MAX_S = 0.25, 5.0
#: After a failure, another message is tried if the first one has no outcome after this time.
_TRIAL_S = 2.0


@dataclass(eq=False)
class _RouteFailure:
    """A failure of routes: since when, until when they wait, and how many times they have failed."""

    since: float
    until: float = 0.0
    times: int = 0
    #: Whether a message is being sent to test whether the failure is over.
    tried: bool = False
    routes: set[Route] = field(default_factory=set)


class RouteBackoff:
    """Remembers which routes have failed. Routes that fail for the same reason wait, and are tried, as one."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Begin without failures; `now` returns a time in seconds."""
        self._now = now
        self._of: dict[Route, _RouteFailure] = {}

    def __contains__(self, route: Route) -> bool:
        """Return whether a route has failed, and has not taken a message since."""
        return route in self._of

    def failed(self, route: Route, alike: Iterable[Route]) -> float | None:
        """Note that a route has not taken a message, and that the routes in `alike` fail for the same reason.

        Return the seconds that they wait, or None if they wait already: several messages may be in flight at once.
        """
        routes, now = {route, *alike}, self._now()
        known = [self._of[one] for one in routes if one in self._of]
        failure = max(known, key=lambda one: one.until, default=_RouteFailure(now))
        failure.routes |= routes
        self._of.update(dict.fromkeys(routes, failure))
        if failure.until > now and not failure.tried:
            return None
        backoff_s = min(_BACKOFF_MAX_S, _BACKOFF_S * 2.0**failure.times) * random.uniform(0.5, 1)  # noqa: S311
        failure.until, failure.times, failure.tried = now + backoff_s, failure.times + 1, False
        return backoff_s

    def hold(self, route: Route) -> Callable[[], None]:
        """Let messages wait for a route until the returned function is called."""
        failure = self._of.setdefault(route, _RouteFailure(self._now(), routes={route}))
        failure.until, failure.tried = math.inf, False

        def release() -> None:
            if failure.until == math.inf:
                failure.until = 0.0

        return release

    def trying(self, route: Route) -> None:
        """Note that a message is being sent; if its route has failed, others wait for its outcome.

        If the message fails too, it has held up only the transaction of its own partition.
        """
        failure = self._of.get(route)
        if failure is not None:
            failure.until, failure.tried = self._now() + _TRIAL_S, True

    def taken(self, route: Route) -> None:
        """Note that a route takes messages."""
        failure = self._of.get(route)
        for other in failure.routes if failure is not None else ():
            if self._of.get(other) is failure:
                del self._of[other]

    def waits(self, route: Route) -> bool:
        """Return whether messages for a route should wait."""
        return route in self._of and self._of[route].until > self._now()

    def seconds(self, route: Route) -> float:
        """Return for how many seconds a waiting route has failed, 0 if it does not wait."""
        return self._now() - self._of[route].since if self.waits(route) else 0.0
