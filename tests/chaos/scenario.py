"""Scenarios by name, and the result of a run."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.dev.broker import Broker
from tests.chaos.run import Run

GUARANTEES = ("at_least_once", "exactly_once")


@dataclass(frozen=True)
class Scenario:
    """A scenario: `act` brings traffic and faults to an installation, and leaves workers running at its end.

    `title` is a short description; `brokers` the number of brokers; `ci` the guarantees with which its short form runs
    with the tests. The rest are the installation's settings.
    """

    name: str
    title: str
    act: Callable[[Run], None]
    brokers: int = 1
    guarantees: tuple[str, ...] = GUARANTEES
    ci: tuple[str, ...] = GUARANTEES
    partitions: int = 8
    max_in_flight: int = 200

    def run(self, cluster: list[Broker], directory: Path, guarantee: str, *, seed: int, short: bool) -> dict[str, Any]:
        """Run `act` and judge; return the faults, the measurements and the verdict, as they are saved."""
        began = time.monotonic()
        made = Run(cluster, directory, guarantee, seed, short, self.partitions, self.max_in_flight)
        with made as run:
            self.act(run)
            found = run.verdict()
            if short:
                run.check_images()
            allowed = run.may_repeat
        faults = [*run.broken, *(found.sentences if found.broken else [])]
        if found.duplicates > allowed:
            faults.append(f"{found.duplicates} duplicates, {allowed} are within the promise")
            faults += found.repeated
        if guarantee == "exactly_once" and found.double_endings:
            faults.append(f"{found.double_endings} messages have two endings")
        return {
            "scenario": self.name,
            "title": self.title,
            "guarantee": guarantee,
            "brokers": self.brokers,
            "seed": seed,
            "seconds": round(time.monotonic() - began),
            "done": dict(run.done),
            "measured": run.measured,
            **found.counts(),
            "duplicates_allowed": allowed,
            "faults": faults,
        }


_known: dict[str, Scenario] = {}


def scenario(title: str, **options: Any) -> Callable[[Callable[[Run], None]], Callable[[Run], None]]:
    """Make a scenario of a function, under the function's name."""

    def register(act: Callable[[Run], None]) -> Callable[[Run], None]:
        name = act.__name__.replace("_", "-")
        _known[name] = Scenario(name, title, act, **options)
        return act

    return register


def scenarios() -> Iterator[Scenario]:
    """Return all scenarios, those on fewer brokers first."""
    from tests.chaos import scenarios as room  # noqa: PLC0415 - they register themselves

    room.load()
    yield from sorted(_known.values(), key=lambda known: known.brokers)
