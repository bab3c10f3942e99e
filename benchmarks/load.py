"""The load generator as its owner sees it."""

import sys
import tempfile
import time
from types import TracebackType
from typing import Self

import msgspec

from app.dev.broker.process import GuardedProcess
from benchmarks.errors import ProcessFailed, TooSlow
from benchmarks.generator import Order, Produced

_POLL_S = 0.02
_START_S, _SLOWEST_PER_S = 60.0, 2_000
#: A paced load that is further behind than this is not the load that was requested.
_BEHIND_MS = 500


class Load:
    """A load that is being sent; it ends when the `with` block does, or this process."""

    def __init__(self, order: Order) -> None:
        """Start to send."""
        self._order = order
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        command = [sys.executable, "-m", "benchmarks.generator", msgspec.json.encode(order).decode()]
        self._process = GuardedProcess(command, self._log, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._process.abandon()
        self._log.close()

    def wait(self) -> Produced:
        """Wait until Kafka has acknowledged everything.

        Raises ProcessFailed if the generator ends with an error, TooSlow if it cannot keep its pace.
        """
        plan = self._order.plan
        sending_s = plan.count * plan.step_us / 1e6 if plan.paced else plan.count / _SLOWEST_PER_S
        deadline = time.monotonic() + max(0.0, plan.start_ms / 1000 - time.time()) + _START_S + sending_s
        while (code := self._process.exit_code()) is None:
            if time.monotonic() > deadline:
                msg = f"The load generator has not sent {plan.count} requests in time. Run on a quiet machine."
                raise TooSlow(msg)
            time.sleep(_POLL_S)
        self._log.seek(0)
        output = self._log.read()
        if code:
            raise ProcessFailed("load generator", code, output.decode(errors="replace"))
        produced = msgspec.json.decode(output.splitlines()[-1], type=Produced)
        if plan.paced and produced.behind_ms > _BEHIND_MS:
            msg = f"The load generator fell {produced.behind_ms} ms behind its pace. Run on a quiet machine."
            raise TooSlow(msg)
        return produced
