"""The one place that reads the time: the wall clock for due times, the monotonic clock to notice jumps."""

import logging
import time

log = logging.getLogger(__name__)

#: A wall clock that moves this much against the monotonic one has jumped.
JUMP_MS = 500
#: The worker's clock may be this much off the brokers' before it is worth an alarm, and before firing stops.
ALARM_MS, FAST_MS = 100, 1_000


class Clock:
    """The time by which messages are due, in epoch milliseconds.

    A clock is suspect at the start and after a jump forward: nothing is fired until the brokers' clock has confirmed
    it, for a message that is sent cannot be taken back.
    """

    def __init__(self) -> None:
        """Know nothing of the brokers' clock."""
        self.jumps = 0
        self.offset_ms = 0
        self.suspect = True
        self._base = self.wall_ms() - self.monotonic_ms()
        #: How far the clock has moved since it was compared with the brokers', without a jump.
        self._drift_ms = 0
        self._alarmed = False

    @staticmethod
    def wall_ms() -> int:
        """Read the wall clock."""
        return time.time_ns() // 1_000_000

    @staticmethod
    def monotonic_ms() -> int:
        """Read the monotonic clock."""
        return time.monotonic_ns() // 1_000_000

    def brokers_ms(self) -> int:
        """Return the brokers' time, as far as it is known."""
        return self.wall_ms() - self.offset_ms

    def now_ms(self) -> int:
        """Return the wall clock's time; notices if it has jumped since the last look."""
        now, moved = self._look()
        if abs(moved) >= JUMP_MS:
            now, moved = self._look()  # a process that was stopped between both readings has seen no jump
        if abs(moved) >= JUMP_MS:
            self.jumps += 1
            self._base += moved
            self.offset_ms += moved  # the brokers' clock has not jumped: requests are still judged by it
            self.suspect = self.suspect or moved > 0
            log.warning(
                "the clock jumped by %+d ms%s",
                moved,
                ". Deliveries wait until it is compared with the brokers' clock again" if moved > 0 else "",
            )
            moved = 0
        self._drift_ms = moved
        return now

    def _look(self) -> tuple[int, int]:
        """Return the wall clock's time, and how far it has moved against the monotonic one."""
        now = self.wall_ms()
        return now, now - self.monotonic_ms() - self._base

    def confirm(self, sent_ms: int, jumps: int, appended_ms: int) -> None:
        """Compare the clocks by a record that was acknowledged just now, unless this clock has jumped meanwhile.

        `sent_ms` and `jumps` are what they were when it was sent; `appended_ms` is -1 if the broker did not say.
        """
        acked_ms = self.now_ms()
        if appended_ms >= 0 and jumps == self.jumps:
            self.compare(sent_ms, appended_ms, acked_ms)

    def compare(self, sent_ms: int, appended_ms: int, acked_ms: int) -> None:
        """Compare the clocks by a record: sent and acknowledged by this clock, appended by the broker's."""
        if sent_ms <= appended_ms <= acked_ms:
            self.offset_ms = 0
        else:
            self.offset_ms = sent_ms - appended_ms if appended_ms < sent_ms else acked_ms - appended_ms
        self.suspect = False
        self._base += self._drift_ms
        self._drift_ms = 0
        off = abs(self.offset_ms) >= ALARM_MS
        if off and not self._alarmed:
            log.error("this machine's clock is %+d ms off the brokers'. Check that NTP runs on both.", self.offset_ms)
        self._alarmed = off

    def may_fire(self) -> bool:
        """Return whether the clock can be trusted not to be fast."""
        return not self.suspect and self.offset_ms + self._drift_ms <= FAST_MS
