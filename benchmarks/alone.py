"""Measures one installation on a broker of its own, and prints the figures with a description of the machine."""

import json
from collections.abc import Callable, Mapping

from app.dev.broker import Broker
from benchmarks.calibration import loop_s
from benchmarks.installation import Installation


def print_measured(name: str, guarantee: str, measure: Callable[[Installation], Mapping[str, object]]) -> None:
    """Start it with events, have it measured, and print a JSON object."""
    before = loop_s()
    with (
        Broker() as broker,
        Installation(broker.bootstrap, name, DELAY_GUARANTEE=guarantee) as here,
    ):
        figures = measure(here)
    calibration = [round(1_000 * one) for one in (before, loop_s())]
    print(json.dumps({"guarantee": guarantee, "calibration, ms": calibration, **figures}, indent=1))
