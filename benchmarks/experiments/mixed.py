"""Ingest at full speed while messages fall due: how late those are."""

from benchmarks.clock import now_ms
from benchmarks.errors import TooSlow
from benchmarks.figures import Figures, spread
from benchmarks.installation import Installation
from benchmarks.sizes import Sizes

_AHEAD_MS = 5_000
_INTO_MS = 2_000


def measure(bootstrap: str, sizes: Sizes) -> Figures:
    """Take in `mixed_burst` messages that are due much later, while `rate` a second fall due.

    The steady messages are requested before, so the figure is the delay by ingest, without a wait in the same queue.
    Lateness is that of messages due between the first request of the burst and the commit of its last.

    Raises TooSlow if no message fell due in that time.
    """
    with Installation(bootstrap, "mixed") as here:
        first = now_ms() + _AHEAD_MS
        step_us = 1_000_000 // sizes.rate
        steady = here.plan(
            "steady", sizes.rate * sizes.mixed_seconds, first, step_us=step_us, value_bytes=sizes.value_bytes
        )
        here.send(steady)
        start = first + _INTO_MS
        burst = here.plan_far("far", sizes.mixed_burst, start_ms=start, value_bytes=sizes.value_bytes)
        with here.sending(burst) as load:
            accepted_ms = here.wait_accepted()
            began_ms = load.wait().began_ms
        here.wait_settled()
        deliveries = here.tally().deliveries(steady)
        late = [delivery.late_ms for delivery in deliveries if began_ms <= delivery.due_ms <= accepted_ms]
        if not late:
            raise TooSlow("mixed: no message was due while the burst was ingested. Run on a quiet machine.")
        figures = spread(late)
        return {
            "mixed": {
                **figures,
                "due_meanwhile": len(late),
                "ingest_per_s": burst.count / (accepted_ms - began_ms) * 1_000,
            }
        }
