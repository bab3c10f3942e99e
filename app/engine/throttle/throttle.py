"""Paused and rate-limited destinations, and whether one may get a message now.

Before a message is sent to a throttled destination, call `room`; then call `spend`.
"""

import math
from collections.abc import Collection, Mapping

from app.base.clock import Clock
from app.engine.throttle.allowance import Allowance, Slots
from app.engine.throttle.control import Control
from app.settings.destinations import DestinationSettings
from app.settings.kafka import KafkaSettings
from app.settings.rates import by_destination
from app.settings.topics import TopicSettings
from punctual.contract.destination import Destination
from punctual.contract.rate import Rate

#: Messages that are due for longer than this are backlog, which DELAY_CATCH_UP_RATE limits.
BACKLOG_MS = 10_000
#: Destinations without backlog are forgotten after this time.
_FORGET_MS = 60_000
_NOTHING: Mapping[Destination, Control] = {}


class Throttle:
    """Holds back one worker's messages according to settings and control records. Records override the settings."""

    def __init__(
        self,
        kafka: KafkaSettings,
        topics: TopicSettings,
        destinations: DestinationSettings,
        clock: Clock,
        controls: Mapping[Destination, Control] = _NOTHING,
    ) -> None:
        """Use the rate limits in the settings and the live `controls`, which update() reads again."""
        self._clock, self._controls = clock, controls
        self._of_settings, self._catch_up = (
            by_destination(destinations.rates),
            destinations.catch_up_rate,
        )
        self._of_clusters = kafka.clusters.rates
        self._slots = Slots(topics.partitions)
        self._owned: Collection[int] = ()
        self._rates: dict[Destination, Rate] = {}
        self._pauses: dict[Destination, Control] = {}
        self._allowed: dict[Destination, Allowance] = {}
        #: Allowances of clusters with a common rate limit for all their topics.
        self._together: dict[str, Allowance] = {}
        #: Brokers' time minus the monotonic clock, as of its first use.
        self._base_ms: int | None = None
        #: Whether any destination is throttled; otherwise callers skip all checks.
        self.active = False
        self.update()

    # settings --------------------------------------------------------------------------------------------------------
    def update(self) -> None:
        """Apply the current controls."""
        controls = self._controls
        lifted = {to for to, control in controls.items() if control.unlimited}
        rates = {to: rate for to, rate in self._of_settings.items() if to not in lifted}
        rates |= {to: control.rate for to, control in controls.items() if control.rate is not None}
        self._rates, self._pauses = rates, {to: control for to, control in controls.items() if control.paused}
        self._allowed = {to: one for to, one in self._allowed.items() if self._rate(to, BACKLOG_MS + 1) == one.rate}
        self.active = bool(self._rates or self._pauses or self._catch_up or self._of_clusters)
        if self._owned:
            self._count()

    def own(self, partitions: Collection[int]) -> None:
        """Use the slots of `partitions` from now on."""
        if partitions == self._owned:
            return
        now_ms = self._now_ms()
        for allowance in (*self._allowed.values(), *self._together.values()):
            allowance.refill(now_ms)
        self._owned = frozenset(partitions)
        self._slots.own(self._owned)
        self._allowed = {to: one for to, one in self._allowed.items() if now_ms - one.used_ms < _FORGET_MS}
        self._count()

    def _count(self) -> None:
        """Start to count the slots of every rate limit, because unused ones can make a burst."""
        for to in self._rates:
            self._allowance(to, 0)
        for cluster in self._of_clusters:
            self._allowance_together(cluster)

    # for each message ------------------------------------------------------------------------------------------------
    def paused(self, to: Destination) -> Control | None:
        """Return the control that pauses a destination now, None if it is not paused."""
        control = self._pauses.get(to)
        return control if control is not None and control.pauses(self._clock.brokers_ms()) else None

    def throttles(self, to: Destination, late_ms: int) -> bool:
        """Return whether a message that is `late_ms` late has to wait for room."""
        return self.limits(to, late_ms) or self.paused(to) is not None

    def limits(self, to: Destination, late_ms: int) -> bool:
        """Return whether a message that is `late_ms` late counts for a rate limit."""
        return to in self._rates or self.shares(to) or self.is_backlog(to, late_ms)

    def is_backlog(self, to: Destination, late_ms: int) -> bool:
        """Return whether DELAY_CATCH_UP_RATE limits a message that is `late_ms` late, if `to` has no limit itself."""
        return self._catch_up is not None and late_ms > BACKLOG_MS and to not in self._rates

    def shares(self, to: Destination) -> bool:
        """Return whether a destination shares a rate limit with all others of its cluster."""
        return to[0] in self._of_clusters

    def room(self, to: Destination, late_ms: int, on_their_way: int, to_cluster: int = 0) -> float:
        """Return how many messages that are `late_ms` late a destination may get now, `math.inf` without a limit.

        This worker has `on_their_way` unacknowledged messages to it, and `to_cluster` to its cluster, which is only
        used if it `shares` a rate limit.
        """
        if self.paused(to) is not None:
            return 0
        allowance, together = self._allowance(to, late_ms), self._allowance_together(to[0])
        room = math.inf if allowance is None else allowance.room(self._now_ms(), on_their_way)
        return room if together is None else min(room, together.room(self._now_ms(), to_cluster))

    def spend(self, to: Destination, late_ms: int) -> None:
        """Count a message that is `late_ms` late as sent to a destination."""
        for allowance in (self._allowance(to, late_ms), self._allowance_together(to[0])):
            if allowance is not None:
                allowance.spend()

    def until_s(self, to: Destination, late_ms: int) -> float:
        """Return the seconds until there may be room; `math.inf` if only a new control can make room."""
        control = self.paused(to)
        if control is not None:
            until_ms = control.until_ms
            return math.inf if until_ms is None else (until_ms - self._clock.brokers_ms()) / 1000
        allowances = (self._allowance(to, late_ms), self._allowance_together(to[0]))
        return max((one.until_ms(self._now_ms()) / 1000 for one in allowances if one is not None), default=0.0)

    # for observers ---------------------------------------------------------------------------------------------------
    @property
    def rates(self) -> Mapping[Destination, Rate]:
        """The rate limits by destination that are in force now."""
        return self._rates

    @property
    def pauses(self) -> list[Destination]:
        """The destinations that are paused now."""
        return [to for to in self._pauses if self.paused(to) is not None]

    # -----------------------------------------------------------------------------------------------------------------
    def _rate(self, to: Destination, late_ms: int) -> Rate | None:
        return self._catch_up if self.is_backlog(to, late_ms) else self._rates.get(to)

    def _allowance(self, to: Destination, late_ms: int) -> Allowance | None:
        rate = self._rate(to, late_ms)
        if rate is None:
            return None
        allowance = self._allowed.get(to)
        if allowance is None:
            allowance = self._allowed[to] = Allowance(rate, self._slots, self._now_ms())
        return allowance

    def _allowance_together(self, cluster: str | None) -> Allowance | None:
        rate = self._of_clusters.get(cluster) if cluster is not None else None
        if cluster is None or rate is None:
            return None
        allowance = self._together.get(cluster)
        if allowance is None:
            allowance = self._together[cluster] = Allowance(rate, self._slots, self._now_ms())
        return allowance

    def _now_ms(self) -> float:
        """Return the brokers' time without jumps: setting a clock must neither add nor remove slots."""
        passed_ms = self._clock.monotonic_ms()
        if self._base_ms is None:
            self._base_ms = self._clock.brokers_ms() - passed_ms
        return passed_ms + self._base_ms
