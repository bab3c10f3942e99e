"""A worker obeys the commands that were sent before it took the partition (README.md#the-promise)."""

from collections.abc import Iterator

from tests.simulation.evidence import Copy, Evidence
from tests.simulation.workload import Ask


def broken_commands(evidence: Evidence) -> Iterator[str]:
    """Return a sentence for each delivery that a command should have prevented.

    Only where it is plain what should happen: one request, and one command (or one more request) after it. In a run
    without faults it holds for all that is sent when there has been time to take the command in.
    """
    if evidence.world.settings.engine.row_version != 1:
        return  # there is more to see (last_command.py)
    for asks in evidence.by_id.values():
        pair = _pair(asks, clocks_differ=any(evidence.world.plan.brokers_ms))
        if pair is None:
            continue
        request, command = pair
        for copy in evidence.copies.get(request.source, ()):
            if _obeys(copy, request, command):
                continue
            began_s = evidence.began(copy.sent, evidence.world.home(request))
            commanded_s = command.at_s
            if began_s > commanded_s or evidence.is_known(copy, commanded_s):
                yield (
                    f"{copy}, sent in a life that began at {began_s:.3f} s, got a {command.op} at {commanded_s:.3f} s"
                )


def _pair(asks: list[Ask], *, clocks_differ: bool) -> tuple[Ask, Ask] | None:
    """Return a request and the command that came after it, if it is plain that it did."""
    names = ("delay-if-due", "delay-asked-at", "delay-no-later")
    if len(asks) != 2 or any(ask.said(name) for ask in asks for name in names):
        return None
    request, command = sorted(asks, key=lambda ask: (ask.at_s, ask.offset))
    if request.op != "schedule":
        return None
    if request.partition != command.partition and clocks_differ:
        return None
    if request.partition != command.partition and (command.op != "cancel" or command.stamp_ms == request.stamp_ms):
        return None  # their order is not promised
    return request, command


def _obeys(copy: Copy, request: Ask, command: Ask) -> bool:
    """Return whether a copy follows from a command."""
    if command.op == "reschedule":
        return copy.due_ms == command.due_ms
    return command.op == "deliver-now" and copy.due_ms == min(command.stamp_ms, request.due_ms or command.stamp_ms)
