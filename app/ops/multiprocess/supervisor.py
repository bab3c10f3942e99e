"""Starts the processes of a worker, restarts them when they exit, and exits with them."""

import asyncio
import os
import secrets
import signal
import sys
from collections.abc import Sequence
from http import HTTPStatus

import aiohttp

from app.base.process import watchdog
from app.ops.multiprocess.plan import Process
from app.serve.web import guard

#: The pause before a restart: first and maximum, doubled each time. It becomes longer than a session of the group, so
#: that the partitions of a process that keeps crashing move to the others.
FIRST_S, LONGEST_S = 0.5, 60.0
#: After running for this long, a process begins again with the first pause.
STEADY_S = 60.0
_LOOK_S = 0.5
#: The certificate of our own processes is not checked: it has the names of this machine, not the address by which we
#: reach them, and the connections do not leave the machine.
OWN_PROCESSES = False
_PATIENCE = aiohttp.ClientTimeout(total=5)


class Child:
    """A process that is kept running."""

    def __init__(self, process: Process) -> None:
        """Describe a process, which does not run yet."""
        self.process = process
        self.running: asyncio.subprocess.Process | None = None
        #: Why it is not ready, by its own response or without one; None while it is ready.
        self.missing: str | None = "it has not started yet"
        self.restarts = 0

    @property
    def ready(self) -> bool:
        """Whether it is ready."""
        return self.missing is None


class Supervisor:
    """Keeps the processes of a worker running until it is stopped."""

    def __init__(self, processes: Sequence[Process], command: Sequence[str]) -> None:
        """Run `command` once with the environment of each process."""
        self.children = [Child(process) for process in processes]
        self._command = command
        #: A pipe without a writer: children see its end when this process is gone (app/base/process/watchdog.py).
        self._lifeline, self._held = os.pipe()
        #: A secret by which the processes recognize requests from this process.
        self.proof = secrets.token_urlsafe()
        self._stopping = asyncio.Event()
        #: The exit code of this process.
        self.code = 0
        self._served = False

    async def run(self) -> int:
        """Run the processes until stop(); return the exit code.

        If a process exits before any was ready, all must have the same problem, and this returns its code.
        """
        looks = asyncio.create_task(self._look())
        try:
            await asyncio.gather(*[self._keep(child) for child in self.children])
        finally:
            looks.cancel()
            os.close(self._held)
            os.close(self._lifeline)
        return self.code

    def stop(self) -> None:
        """End all processes gracefully."""
        self._stopping.set()
        for child in self.children:
            if child.running is not None and child.running.returncode is None:
                child.running.send_signal(signal.SIGTERM)

    async def _keep(self, child: Child) -> None:
        wait_s, loop = FIRST_S, asyncio.get_running_loop()
        while not self._stopping.is_set():
            began = loop.time()
            code = await self._run_once(child)
            if self._stopping.is_set():
                return
            if not self._served:
                self.code = code if code > 0 else 128 - code
                self.stop()
                return
            if loop.time() - began > STEADY_S:
                wait_s = FIRST_S
            child.restarts += 1
            child.missing = f"it has exited with code {code} and is being restarted"
            say(f"process {child.process.number} has exited with code {code}. It is restarted in {wait_s:g} s.")
            try:
                await asyncio.wait_for(self._stopping.wait(), wait_s)
            except TimeoutError:
                wait_s = min(2 * wait_s, LONGEST_S)

    async def _run_once(self, child: Child) -> int:
        env = {**child.process.env, watchdog.PARENT_FD: str(self._lifeline), guard.PROOF: self.proof}
        child.running = await asyncio.create_subprocess_exec(*self._command, env=env, pass_fds=(self._lifeline,))
        child.missing = "it is starting"
        if self._stopping.is_set():  # it was not running yet when stop() sent the signal
            child.running.send_signal(signal.SIGTERM)
        return await child.running.wait()

    async def _look(self) -> None:
        """Ask each process, twice a second, whether it is ready."""
        connector = aiohttp.TCPConnector(ssl=OWN_PROCESSES)
        async with aiohttp.ClientSession(timeout=_PATIENCE, connector=connector) as session:
            while True:
                await asyncio.gather(*[self._ask(session, child) for child in self.children])
                await asyncio.sleep(_LOOK_S)

    async def _ask(self, session: aiohttp.ClientSession, child: Child) -> None:
        if child.running is None or child.running.returncode is not None:
            return
        try:
            async with session.get(f"{child.process.url}/health/ready") as answer:
                text = (await answer.text()).strip()
                child.missing = None if answer.status == HTTPStatus.OK else text
        except (aiohttp.ClientError, TimeoutError) as error:
            child.missing = f"its port does not answer: {error}"
        self._served = self._served or child.ready


def say(sentence: str) -> None:
    """Write a sentence to stderr."""
    sys.stderr.write(f"punctual: {sentence}\n")
    sys.stderr.flush()
