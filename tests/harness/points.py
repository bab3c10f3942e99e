"""The named points of the order of operations, at which a worker can be made to kill itself (hooked.py)."""

_STEPS = ("before-events", "events-sent", "events-acked", "changelog-sent", "changelog-acked", "applied")
_SENDS = ("before-send", "sent", "acked")
POINTS = [*(f"ingest.{point}" for point in _STEPS), *(f"fire.{point}" for point in (*_SENDS, *_STEPS))]
_EXACT_STEPS = ("before-events", "changelog-acked", "committed", "applied")
EXACT_POINTS = [*(f"ingest.{point}" for point in _EXACT_STEPS), *(f"fire.{point}" for point in _EXACT_STEPS)]
EXACT_POINTS += ["fire.before-send", "fire.acked"]
