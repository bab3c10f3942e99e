"""Sends commands for messages by their ids, and writes the outcome of each."""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from punctual.cli.api import ApiAnswer, WorkerApi, message_at
from punctual.cli.errors import CommandError, Unreachable
from punctual.cli.exits import Exit
from punctual.cli.progress import Progress
from punctual.cli.table import JSON, write_json
from punctual.cli.terminal import say, state_line, write

#: The number of commands in flight: each waits for its outcome.
_AT_ONCE: Final = 8
_EXITS: Final = {
    "unknown": Exit.NOT_FOUND,
    "conflict": Exit.TOO_LATE,
    "stale": Exit.TOO_LATE,
    "refused": Exit.FAILED,
    "pending": Exit.INCOMPLETE,
}


def send_commands(api: WorkerApi, action: str, ids: Sequence[str], body: Mapping[str, object], form: str) -> Exit:
    """Send a command for each id, write the outcomes in order, and return the exit code of the first that failed.

    Raises a CommandError if a worker does not accept a command; later commands are not sent.
    """
    commands, progress, codes = _Commands(api, action, body), Progress("messages", len(ids)), list[Exit]()
    try:
        for start in range(0, len(ids), _AT_ONCE):
            some = ids[start : start + _AT_ONCE]
            answers = commands.give_all(some)
            progress.erase()
            outcomes = zip(some, answers, strict=True)
            codes += [_tell(id_, answer.body, form) for id_, answer in outcomes if isinstance(answer, ApiAnswer)]
            failed = next((answer for answer in answers if isinstance(answer, CommandError)), None)
            if failed is not None:
                raise failed
            if len(codes) < len(ids):
                progress.reach(len(codes))
    finally:
        commands.close()
        progress.erase()
        if len(ids) > 1:
            rest = f", {len(ids) - len(codes):,} without an answer" if len(codes) < len(ids) else ""
            say(f"{codes.count(Exit.DONE):,} of {len(ids):,} done{rest}")
    return next((code for code in codes if code is not Exit.DONE), Exit.DONE)


class _Commands:
    """Sends commands to a worker, several at a time, with one connection per thread."""

    def __init__(self, api: WorkerApi, action: str, body: Mapping[str, object]) -> None:
        self._api, self._action, self._body = api, action, body
        self._pool, self._own = ThreadPoolExecutor(_AT_ONCE), threading.local()
        self._all: list[WorkerApi] = []

    def give_all(self, ids: Sequence[str]) -> list[ApiAnswer | CommandError]:
        """Send a command for each id, and return the responses, or the errors without a response."""
        return list(self._pool.map(self._give, ids))

    def close(self) -> None:
        """Wait for the commands in flight, and close the connections."""
        self._pool.shutdown(cancel_futures=True)
        for api in self._all:
            api.close()

    def _give(self, id_: str) -> ApiAnswer | CommandError:
        if not hasattr(self._own, "api"):
            self._own.api = self._api.another()
            self._all.append(self._own.api)
        api: WorkerApi = self._own.api
        try:
            path, query = message_at(id_, f"/{self._action}")
            answer = api.post(path, self._body, query)
        except Unreachable as error:
            return Unreachable(f"{id_}: {error}. It may have been done: check with `punctual show`")
        except CommandError as error:
            return error
        return answer if "outcome" in answer.body else api.failure(answer)


def _tell(id_: str, outcome: dict[str, Any], form: str) -> Exit:
    """Write the outcome of a command, to stderr if it failed and people read it, and return its exit code."""
    code = _EXITS.get(outcome["outcome"], Exit.DONE)
    if code is Exit.NOT_FOUND and outcome.get("ended"):
        code = Exit.TOO_LATE
    if form == JSON:
        write_json({"id": id_, **outcome})
    else:
        tell = write if code is Exit.DONE else say
        tell(state_line(id_, outcome.get("sentence") or outcome["detail"]))
    return code
