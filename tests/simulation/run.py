"""Runs a seed and returns its result."""

import gc
import itertools
import logging
import multiprocessing
import os
import warnings
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, ProcessPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

from tests.simulation.arrivals import sent_again
from tests.simulation.bounds import unbounded
from tests.simulation.callbacks import broken_callbacks
from tests.simulation.changelog import untrue
from tests.simulation.commands import broken_commands
from tests.simulation.evidence import Evidence
from tests.simulation.last_command import overtaken
from tests.simulation.lives import Lives
from tests.simulation.loop import Stuck
from tests.simulation.obedience import disobeyed, too_fast
from tests.simulation.order import out_of_order
from tests.simulation.planted import planted
from tests.simulation.posts import broken_posts
from tests.simulation.teams import beyond_quota, miscounted
from tests.simulation.world import World, simulated

#: Cyclic garbage is collected after this many runs: most consists of dead workers.
_COLLECT_EVERY = 50
_CHECKS = (
    broken_commands,
    overtaken,
    unbounded,
    out_of_order,
    broken_posts,
    broken_callbacks,
    untrue,
    disobeyed,
    too_fast,
    beyond_quota,
    miscounted,
    sent_again,
)
#: Seeds of a process's share.
_SHARE = 5


@dataclass(slots=True)
class Result:
    """The result of a run."""

    seed: int
    troubles: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    workers: int = 0
    crashes: int = 0
    messages: int = 0
    deliveries: int = 0
    duplicates: int = 0
    retold: int = 0

    def __str__(self) -> str:
        """List the troubles and the faults, and the command that replays the run."""
        lines = [f"seed {self.seed}:", *(f"  {trouble}" for trouble in self.troubles[:10])]
        lines += ["faults of the run:", *(f"  {fault}" for fault in self.faults)]
        return "\n".join([*lines, f"replay it: python -m tests.simulation --seed {self.seed} --trace"])


def run(seed: int, *, trace: bool = False) -> Result:
    """Run a seed."""
    world = World(seed, trace=trace)
    result = Result(
        seed, faults=[f"{world.settings.engine.guarantee}, {world.plan.weather}", *map(str, world.plan.faults)]
    )
    with simulated(world.disks, world.stamps, world.web.give_up_ms):
        try:
            world.run()
        except Stuck as stuck:
            result.troubles.append(str(stuck))
        else:
            _judge(world, result)
            _lose_changelog(world, result)
    result.troubles = world.troubles + result.troubles
    result.workers, result.crashes, result.trace = len(world.workers), world.crashes, world.broker.trace or []
    return result


def _lose_changelog(world: World, result: Result) -> None:
    try:
        if not result.troubles:
            world.run_on()
    except Stuck as stuck:
        result.troubles.append(f"after the changelog was lost, {stuck}")


def _judge(world: World, result: Result) -> None:
    evidence = Evidence(world)
    lives = Lives(evidence)
    result.troubles += lives.faults()
    for check in _CHECKS:
        result.troubles += check(evidence)
    result.messages = sum(ask.op == "schedule" for ask in world.asks)
    result.deliveries = sum(map(len, evidence.copies.values()))
    result.duplicates, result.retold = lives.duplicates, lives.retold


@contextmanager
def quickly() -> Iterator[None]:
    """Run seeds without log records, and without looking for garbage all the time."""
    disabled, collecting = logging.root.manager.disable, gc.isenabled()
    logging.disable(logging.CRITICAL)
    gc.disable()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "coroutine .* was never awaited")  # its worker died before it began
        try:
            yield
        finally:
            logging.disable(disabled)
            if collecting:
                gc.enable()
            gc.collect()


def run_all(seeds: range) -> Iterator[Result]:
    """Run seeds one after the other."""
    with quickly():
        for count, seed in enumerate(seeds):
            yield run(seed)
            if count % _COLLECT_EVERY == _COLLECT_EVERY - 1:
                gc.collect()


@contextmanager
def processes() -> Iterator[Executor]:
    """Return a pool with a process for each core; the seeds that are left at the end are cancelled."""
    pool = ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def spread(pool: Executor, seeds: range, bug: str | None = None) -> Iterator[Result]:
    """Run seeds on all cores, in any order, with a planted bug if given; closing the iterator cancels the rest."""
    ahead = 2 * (os.cpu_count() or 1)
    shares = (seeds[begin : begin + _SHARE] for begin in range(0, len(seeds), _SHARE))
    running = {pool.submit(run_share, share, bug) for share in itertools.islice(shares, ahead)}
    try:
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            running |= {pool.submit(run_share, share, bug) for share in itertools.islice(shares, len(done))}
            for share in done:
                yield from share.result()
    finally:
        for share in running:
            share.cancel()


def run_share(seeds: range, bug: str | None) -> list[Result]:
    """Run seeds in one process of the pool, with a planted bug until one fails; a spawned process imports this by
    name."""
    with planted(bug) if bug else nullcontext():
        results = []
        for result in run_all(seeds):
            results.append(result)
            if bug and result.troubles:
                break
        return results
