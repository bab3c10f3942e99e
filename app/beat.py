"""The beat of a worker: what comes to its partitions is gathered until then, so that it travels in the same requests.

Each step costs two requests to Kafka and a write to disk, whatever is in it.
"""

#: Records are looked for, and outcomes alone become a step, on the calm beat; records that have come, and all else in a
#: hurry, on the short one.
SHORT_S, CALM_S = 0.005, 0.02


def until(beat_s: float, now: float) -> float:
    """Give the seconds from `now` until the next beat."""
    return beat_s - now % beat_s
