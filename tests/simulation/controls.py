"""Pauses and caps of one run, by seed: what operators say, and when."""

import json
import random
from dataclasses import dataclass

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from app.settings.settings import Settings
from tests.simulation.loop import EPOCH_MS

#: How far a worker may be off the brokers' time, by which pauses end.
_OFF_S = 1.0


@dataclass(slots=True)
class Said:
    """A control record; without a value it takes back earlier ones."""

    at_s: float
    to: str
    value: dict[str, object] | None

    def batch(self) -> bytes:
        """Return the record batch."""
        builder = DefaultRecordBatchBuilder(
            2, 0, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1, batch_size=1 << 20
        )
        value = None if self.value is None else json.dumps(self.value).encode()
        builder.append(0, EPOCH_MS, self.to.encode(), value, [])
        return bytes(builder.build())

    def pauses(self, at_s: float) -> bool:
        """Return whether it pauses its destination for certain at that time."""
        if self.value is None or not self.value.get("paused"):
            return False
        until_ms = self.value.get("until")
        return until_ms is None or at_s < (int(str(until_ms)) - EPOCH_MS) / 1000 - _OFF_S


def controls(seed: int, span_s: float, destinations: dict[str, int]) -> list[Said]:
    """Make up operators' controls; most runs have none, and at the end all are taken back."""
    rnd = random.Random(f"{seed}-controls")  # noqa: S311
    found: list[Said] = []
    if rnd.random() < 0.6:
        return found
    for _ in range(rnd.randint(1, 4)):
        to, at_s = rnd.choice(sorted(destinations)), rnd.choice((0.0, rnd.uniform(0.0, span_s)))
        if rnd.random() < 0.1:
            found.append(Said(at_s, to, {"rate": rnd.choice((5, 20))}))
            continue
        value: dict[str, object] = {"paused": True, "reason": "why not"}
        if rnd.random() < 0.4:
            value["until"] = EPOCH_MS + round((at_s + rnd.uniform(0.2, 4.0)) * 1000)
        found.append(Said(at_s, to, value))
        if rnd.random() < 0.5:
            found.append(Said(at_s + rnd.uniform(0.1, span_s), to, {"paused": False} if rnd.random() < 0.5 else None))
    found += [Said(span_s + 0.4, to, None) for to in destinations]
    return sorted(found, key=lambda said: said.at_s)


def rates(seed: int, destinations: dict[str, int]) -> dict[str, str]:
    """Return settings with a rate limit for one destination; empty for most seeds."""
    rnd = random.Random(f"{seed}-rates")  # noqa: S311
    if rnd.random() < 0.8:
        return {}
    burst = rnd.choice(("", "", " burst 3"))
    return {"DELAY_RATES": f"{rnd.choice(sorted(destinations))}={rnd.choice((5, 10, 40))}/s{burst}"}


def settings_of(env: dict[str, str], seed: int, destinations: dict[str, int]) -> Settings:
    """Return the settings of a run, with its rate limit."""
    return Settings.from_env({**env, **rates(seed, destinations)})
