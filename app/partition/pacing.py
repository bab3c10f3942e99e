"""The beat of a worker: what comes to its partitions is gathered until then, so that it travels in the same requests.

Each step costs two requests to Kafka and a write to disk, whatever is in it.
"""

#: Records are looked for, and outcomes alone become a step, on the calm beat; records that have come, and all else in a
#: hurry, on the short one. Exactly once, deliveries wait for it: it is shorter.
SHORT_S, CALM_S, CALM_EXACTLY_S = 0.005, 0.02, 0.015


def calm_s(*, exactly_once: bool) -> float:
    """Return the calm beat, in seconds."""
    return CALM_EXACTLY_S if exactly_once else CALM_S


def until(beat_s: float, now: float) -> float:
    """Return the seconds from `now` until the next beat."""
    return beat_s - now % beat_s
