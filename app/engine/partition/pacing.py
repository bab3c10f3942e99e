"""The pace of a worker: what comes to its partitions is gathered until the next beat, and travels in the same requests.

Each step costs two requests to Kafka and a write to disk, whatever is in it.
"""

#: Records are looked for, and outcomes alone become a step, on the calm beat; records that have come, and all else in a
#: hurry, on the short one.
SHORT_S, CALM_S = 0.005, 0.04
#: Exactly once, deliveries wait for the calm beat: it is shorter (docs/decisions/0024).
CALM_EXACTLY_S = 0.018
#: A message that is due so soon after it was taken in may be late for that.
SOON_MS = 45


def until(beat_s: float, now: float) -> float:
    """Return the seconds from `now` until the next beat."""
    return beat_s - now % beat_s


class Pacing:
    """When a partition's next step begins: it waits for company, unless there is a hurry. Times are the loop's."""

    def __init__(self, *, exactly_once: bool) -> None:
        """Begin without a hurry."""
        self._exactly_once, self._calm_s = exactly_once, CALM_EXACTLY_S if exactly_once else CALM_S
        self._hurried_until = self._began = 0.0

    def begin(self, now: float) -> None:
        """Note that a step begins."""
        self._began = now

    def hurry(self, now: float, seconds: float) -> None:
        """Let the next steps come sooner for so long."""
        self._hurried_until = max(self._hurried_until, now + seconds)

    def is_hurried(self, now: float) -> bool:
        """Return whether there is a hurry."""
        return now < self._hurried_until

    def until_step(self, now: float, *, full: bool, records: bool) -> float:
        """Return the seconds until the next step may begin; `full` leaves no room to fire, `records` have come.

        Records wait less than outcomes, and what others wait for does not wait at all. Exactly once all wait alike, for
        each step is a transaction; the first after a pause does not, for it may deliver.
        """
        if full and not self._exactly_once:
            return 0.0
        if full or self.is_hurried(now):
            return until(SHORT_S, now)
        if self._exactly_once:
            return until(self._calm_s, now) if now < self._began + self._calm_s else 0.0
        return until(SHORT_S if records else self._calm_s, now)
