"""The only module that reads the time: the wall clock for due times, the monotonic clock to notice jumps."""

import logging
import time

log = logging.getLogger(__name__)

#: A wall clock that moves by this much relative to the monotonic clock has jumped.
JUMP_MS = 500
#: The maximum lead of the worker's clock over the brokers' before an alarm, and before firing stops.
ALARM_MS, FAST_MS = 100, 1_000


class Clock:
    """The time by which messages are due, in epoch milliseconds.

    A clock is suspect at the start and after a jump forward: no message is fired until the brokers' clock has confirmed
    it, because a sent message cannot be taken back.
    """

    def __init__(self) -> None:
        """Begin with a clock that is suspect, and the brokers' clock unknown."""
        self.jumps = 0
        self.offset_ms = 0
        self.suspect = True
        self._base = self.wall_ms() - self.monotonic_ms()
        #: How far the clock has moved, without a jump, since the last comparison with the brokers' clock.
        self._drift_ms = 0
        self._alarmed = False

    @staticmethod
    def wall_ms() -> int:
        """Read the wall clock."""
        return time.time_ns() // 1_000_000

    @staticmethod
    def monotonic_ms() -> int:
        """Return the monotonic clock's time in milliseconds."""
        return time.monotonic_ns() // 1_000_000

    def brokers_ms(self) -> int:
        """Return the brokers' time, as far as it is known."""
        return self.wall_ms() - self.offset_ms

    def now_ms(self) -> int:
        """Return the wall clock's time, after checking whether it has jumped since the last call."""
        now, moved = self._look()
        if abs(moved) >= JUMP_MS:
            now, moved = self._look()  # if the process was stopped between both readings, there was no jump
        if abs(moved) >= JUMP_MS:
            self.jumps += 1
            self._base += moved
            self.offset_ms += moved  # the brokers' clock has not jumped, and requests are still judged by it
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
        """Return the wall clock's time, and how far it has moved relative to the monotonic clock."""
        now = self.wall_ms()
        return now, now - self.monotonic_ms() - self._base

    def confirm(self, sent_ms: int, jumps: int, appended_ms: int) -> None:
        """Compare the clocks by a record that was just acknowledged, unless this clock has jumped since it was sent.

        `sent_ms` and `jumps` are the time and the number of jumps when it was sent. `appended_ms` is -1 if unknown.
        """
        acked_ms = self.now_ms()
        if appended_ms >= 0 and jumps == self.jumps:
            self.compare(sent_ms, appended_ms, acked_ms)

    def compare(self, sent_ms: int, appended_ms: int, acked_ms: int) -> None:
        """Compare the clocks by a record: sent and acknowledged by this clock, appended by the broker's clock."""
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
