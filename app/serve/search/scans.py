"""Controls a worker's scanner process: the first scan starts it, and it ends after a minute without scans."""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Final

import msgspec

from app.base.places import WHO, NoPlace, Places
from app.base.process import time_slice
from app.serve.search.scan import ScanQuery, ScanResult
from app.serve.search.scanner import IDLE, LENGTH, ScannerAnswer, ScannerQuestion, encode
from app.serve.web.problem import TypedProblem

_IDLE_S: Final = 60.0
#: A scan is limited in rows and time; opening many databases, or a busy machine, may add to that.
_PATIENCE_S: Final = 20.0
#: An idle-priority process may get too little time: after this time it is replaced by one with only a nice value.
_IDLE_PATIENCE_S: Final = 3.0
_LEAVE_S: Final = 2.0
#: The maximum scans that wait, apart from jobs: a further one would not get a result in time.
_MOST: Final = 32

_decode = msgspec.msgpack.Decoder(ScannerAnswer).decode


class ScanFailed(TypedProblem):
    """The databases could not be scanned."""

    type_name = "busy"


class Scans:
    """Runs one scan after the other in a separate process, which exists only while there are scans."""

    def __init__(self, databases: Callable[[], Mapping[int, Path]], directory: Path) -> None:
        """Scan the databases that `databases` returns, by partition; the process writes logs in `directory`."""
        self._databases, self._directory = databases, directory
        self._turn, self._places = asyncio.Lock(), Places(_MOST + 1)  # one of the places is for the running scan
        self._process: asyncio.subprocess.Process | None = None
        self._end: asyncio.TimerHandle | None = None
        #: Whether the next process has idle priority; false after one got too little time.
        self._idle = not time_slice.supported()

    async def scan(self, wanted: ScanQuery, only: int | None = None, *, job: bool = False) -> ScanResult:
        """Scan all partitions that are served here, or `only` one partition; a job's scan may always wait for its turn.

        Raises ScanFailed; the scan is then over, and the next one gets a new process.
        """
        here = {number: str(path) for number, path in self._databases().items()}
        parts = [(number, path) for number, path in here.items() if only in (None, number)]
        if not parts:
            return ScanResult(by_step=[{} for _ in wanted.steps[1:]])
        question = ScannerQuestion(parts, wanted, list(here.values()), job)
        try:
            with nullcontext() if job else self._places.one(WHO.get()):
                answer = await self._answer(question)
        except NoPlace:
            waiting = len(self._places) - 1
            raise ScanFailed(f"{waiting} searches are already waiting for this worker; try again in a moment") from None
        if answer.found is None:
            raise ScanFailed(f"the databases cannot be read now ({answer.error}); try again in a moment")
        return answer.found

    async def _answer(self, question: ScannerQuestion) -> ScannerAnswer:
        async with self._turn:
            self._stay()
            try:
                if self._idle:
                    with contextlib.suppress(TimeoutError):
                        return await self._ask(question, _IDLE_PATIENCE_S)
                    await self._kill()  # it gets no time on this machine
                    self._idle = False
                return await self._ask(question, _PATIENCE_S)
            except (OSError, EOFError, TimeoutError, asyncio.CancelledError) as error:
                await self._kill()
                if isinstance(error, asyncio.CancelledError):
                    raise
                raise ScanFailed(f"the scan ended early ({type(error).__name__}); try again") from error
            finally:
                self._leave_later()

    async def close(self) -> None:
        """End the process, if it runs."""
        self._stay()
        async with self._turn:
            process = self._process
            self._leave()
            if process is not None:
                try:
                    await asyncio.wait_for(_ended(process), _LEAVE_S)
                except TimeoutError:
                    await _killed(process)

    async def _ask(self, question: ScannerQuestion, patience_s: float) -> ScannerAnswer:
        """Return the process's answer. Raises TimeoutError if it takes this much longer than the scan may."""
        async with asyncio.timeout(patience_s + question.scan.ms / 1000):
            if self._process is None or self._process.returncode is not None:
                words = [sys.executable, "-m", "app.serve.search.scanner", str(self._directory)]
                words += [IDLE] if self._idle else []
                pipe = asyncio.subprocess.PIPE
                start = asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, start_new_session=True)
                self._process = await start
            give, take = self._process.stdin, self._process.stdout
            assert give is not None, "its input is a pipe"
            assert take is not None, "its output is a pipe"
            body = encode(question)
            give.write(LENGTH.pack(len(body)) + body)
            await give.drain()
            length = LENGTH.unpack(await take.readexactly(LENGTH.size))[0]
            return _decode(await take.readexactly(length))

    async def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await _killed(process)

    def _stay(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None

    def _leave_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._end = loop.call_later(_IDLE_S, self._leave)

    def _leave(self) -> None:
        process, self._process, self._idle = self._process, None, not time_slice.supported()
        if process is not None and process.stdin is not None:
            process.stdin.close()  # the process ends by itself after its last result


async def _killed(process: asyncio.subprocess.Process) -> None:
    """Kill a process, which may have ended already, and wait for its end."""
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await _ended(process)


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Wait until a process has ended and its output is closed."""
    if process.stdout is not None:
        await process.stdout.read()
    await process.wait()
