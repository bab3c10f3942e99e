"""The functions that handle one message, in order: `python -m tests.structure.trace [plain] [HEADER=VALUE …]`.

Without `plain` its request has options. It runs on a simulated clock, without Kafka, its consumer and the sender.
PUNCTUAL_KERNEL=off shows the Python path.
"""

import sys
import threading
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from punctual.testing import Delayed, Options

_TREE = Path(__file__).parents[2]
_PACKAGES = ("app", "punctual", "tables")
_SIMULATED = "app/dev/testing/"
_START = datetime(2030, 1, 1, tzinfo=UTC)
#: The traced message comes after a first one, which triggers lazy initialisation.
_FIRST_S, _WAITS_S = 2, 60
_DUE = _START + timedelta(seconds=_FIRST_S + _WAITS_S)
#: A destination and a due time in digits, as most requests have.
PLAIN = {"delay-to": "orders", "delay-at": f"{_DUE.timestamp() * 1000:.0f}"}
#: Takes the path that reads every header, as all but plain requests do.
WITH_OPTIONS = {"delay-to": "orders", "delay-after": f"PT{_WAITS_S}S", "delay-max-late": "PT1H", "delay-id": "order-42"}


class Call(NamedTuple):
    """A function that was entered."""

    file: str
    function: str


def calls_of(headers: dict[str, str]) -> list[Call]:
    """Return all calls of our functions between the arrival of a request and the end of its delivery."""
    calls: list[Call] = []
    listening = threading.Event()

    def profile(frame: FrameType, event: str, _argument: Any) -> None:
        if event != "call" or not listening.is_set():
            return
        path = frame.f_code.co_filename
        if path.startswith(f"{_TREE}/"):
            file = path[len(f"{_TREE}/") :]
            if file.startswith(_PACKAGES) and not file.startswith(_SIMULATED):
                calls.append(Call(file, frame.f_code.co_qualname))

    threading.setprofile(profile)
    try:
        delayed = Delayed(Options(start=_START))
    finally:
        threading.setprofile(None)
    try:
        delayed.produce({"delay-to": "orders", "delay-after": "PT1S"}, b"first", key=b"k")
        delayed.advance(seconds=_FIRST_S)
        listening.set()
        delayed.produce(headers, b"hello", key=b"k")
        records = delayed.advance(seconds=_WAITS_S + 1)
        listening.clear()
    finally:
        delayed.close()
    assert [record.value for record in records] == [b"hello"]
    return calls


def main(arguments: list[str]) -> None:
    """Print the files of one message in the order of their first call, with the number of calls."""
    plain = arguments[:1] == ["plain"]
    headers = (PLAIN if plain else WITH_OPTIONS) | dict(argument.split("=", 1) for argument in arguments[plain:])
    calls = calls_of(headers)
    for file in dict.fromkeys(call.file for call in calls):
        functions = list(dict.fromkeys(call.function for call in calls if call.file == file))
        print(f"{sum(call.file == file for call in calls):4} {file}: {', '.join(functions)}")
    changes = sum(one.file != other.file for one, other in pairwise(calls))
    print(f"{len({call.file for call in calls})} files, {len(calls)} calls, {changes} changes of file")


if __name__ == "__main__":
    main(sys.argv[1:])
