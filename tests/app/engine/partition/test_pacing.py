"""The times at which requests are fetched."""

from types import SimpleNamespace
from typing import Any

import pytest

from app.engine.engine import Engine
from app.engine.faust_host.consumer import Consumer


def until_beat(now: float, began: float, *, hurried: bool) -> float:
    """Return the seconds until the next look, after a look that began then."""
    app = SimpleNamespace(engine=SimpleNamespace(hurried=hurried))
    consumer: Any = SimpleNamespace(loop=SimpleNamespace(time=lambda: now), app=app)
    return Consumer._until_beat(consumer, began)


@pytest.mark.parametrize(("now", "seconds"), [(100.0, 0.035), (100.034, 0.001), (100.036, 0.039)])
def test_a_look_is_a_little_before_the_steps(now: float, seconds: float) -> None:
    assert until_beat(now, now - 1, hurried=False) == pytest.approx(seconds)


@pytest.mark.parametrize(("began", "seconds"), [(100.0, 0.005), (99.998, 0.003), (99.0, 0.0)])
def test_in_a_hurry_looks_follow_one_another(began: float, seconds: float) -> None:
    assert until_beat(100.0, began, hurried=True) == pytest.approx(seconds)


async def test_a_worker_is_in_a_hurry_if_any_of_its_partitions_is() -> None:
    idle, busy = (SimpleNamespace(writer=SimpleNamespace(is_hurried=lambda _, is_=is_: is_)) for is_ in (False, True))
    for partitions, hurried in (({}, False), ({0: idle}, False), ({0: idle, 1: busy}, True)):
        engine: Any = SimpleNamespace(ownership=SimpleNamespace(partitions=partitions))
        assert Engine.hurried.fget(engine) is hurried  # type: ignore[attr-defined]
