"""The pace of a worker: its partitions gather records and outcomes until the next beat, and send them together.

Each step costs two requests to Kafka and a write to disk, however small it is.
"""

#: On the calm beat, workers look for records, and outcomes become a step. Records that have come become a step on the
#: short beat, which is also the beat of everything during a hurry.
SHORT_S, CALM_S = 0.005, 0.04
#: Exactly once, deliveries wait for the calm beat, so it is shorter (docs/decisions/0024).
CALM_EXACTLY_S = 0.018
#: A message that is due within this time after ingest may be late because of the calm beat.
SOON_MS = 45


def until(beat_s: float, now: float) -> float:
    """Return the seconds from `now` until the next beat."""
    return beat_s - now % beat_s


class Pacing:
    """Decides on which beat a partition's next step begins. Times are the event loop's, in seconds."""

    def __init__(self, *, exactly_once: bool) -> None:
        """Begin without a hurry, with the calm beat of `exactly_once` or of at least once."""
        self._exactly_once, self._calm_s = exactly_once, CALM_EXACTLY_S if exactly_once else CALM_S
        self._hurried_until = self._began = 0.0

    def begin(self, now: float) -> None:
        """Note that a step begins."""
        self._began = now

    def hurry(self, now: float, seconds: float) -> None:
        """Use the short beat for the next `seconds`."""
        self._hurried_until = max(self._hurried_until, now + seconds)

    def is_hurried(self, now: float) -> bool:
        """Return whether there is a hurry."""
        return now < self._hurried_until

    def until_step(self, now: float, *, full: bool, records: bool) -> float:
        """Return the seconds until the next step may begin; `full`: no room to fire, `records`: some have come.

        At least once, a full partition does not wait, and records wait less than outcomes. Exactly once, each step is
        a transaction, so both wait for the calm beat. The first step after a pause may deliver, so it begins at once.
        """
        if full and not self._exactly_once:
            return 0.0
        if full or self.is_hurried(now):
            return until(SHORT_S, now)
        if self._exactly_once:
            return until(self._calm_s, now) if now < self._began + self._calm_s else 0.0
        return until(SHORT_S if records else self._calm_s, now)
