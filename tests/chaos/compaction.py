"""Compaction of a changelog within seconds, not hours."""

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.chaos.run import Run
from tests.harness.kafka import read
from tests.harness.waiting import LIMIT_S, eventually

_COMPACTED_S = 90.0
_BROKERS = {"log.cleaner.backoff.ms": "1000"}
_SOON = {
    "segment.ms": "1500",
    "min.cleanable.dirty.ratio": "0.001",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "1500",
}


def compact_soon(run: Run, **config: str) -> None:
    """Have an installation's changelog compacted all the time; `config` has further settings, underscores for dots."""
    for number in _admin(run).list_topics(timeout=LIMIT_S).brokers:
        _configure(run, ResourceType.BROKER, str(number), _BROKERS)
    _configure(run, ResourceType.TOPIC, topic(run), {**_SOON, **_dotted(config)})


def configure(run: Run, **config: str) -> None:
    """Change settings of the changelog; `config` has underscores for dots."""
    _configure(run, ResourceType.TOPIC, topic(run), _dotted(config))


def _dotted(config: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in config.items()}


def _configure(run: Run, kind: ResourceType, name: str, config: dict[str, str]) -> None:
    entries = [ConfigEntry(*item, incremental_operation=AlterConfigOpType.SET) for item in config.items()]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    admin = _admin(run)  # an AdminClient that is garbage-collected never answers
    admin.incremental_alter_configs([resource])[resource].result(LIMIT_S)


def _admin(run: Run) -> AdminClient:
    return AdminClient({"bootstrap.servers": run.bootstrap, "log_level": 0})


def topic(run: Run) -> str:
    """Return the changelog's name."""
    return f"{run.app_id}-delays-changelog"


def places(run: Run) -> set[tuple[int, int]]:
    """Return partition and offset of each record that can be read."""
    return {(record.partition, record.offset) for record in read(run.bootstrap, topic(run))}


def wait_compacted(run: Run, records: int = 300) -> None:
    """Wait until at least `records` records are gone that were seen before, in at least half of the partitions."""
    seen: set[tuple[int, int]] = set()

    def gone() -> bool:
        there = places(run)
        seen.update(there)
        missing = seen - there
        run.measure("records_compacted_away", len(missing))
        return len(missing) >= records and len({place[0] for place in missing}) >= run.partitions // 2

    eventually(gone, _COMPACTED_S, "compaction")
    run.did("compactions seen")


def wait_forgotten(run: Run, rows: dict[int, set[bytes]], share: float = 0.5) -> None:
    """Wait until a share of the `rows` is gone from the changelog, tombstones included."""

    def forgotten() -> bool:
        known = {(record.partition, record.key) for record in read(run.bootstrap, topic(run))}
        asked = [(partition, key) for partition, keys in rows.items() for key in keys]
        gone = sum(place not in known for place in asked)
        run.measured["rows_forgotten"] = gone
        return gone >= share * len(asked) > 0

    eventually(forgotten, _COMPACTED_S, "the end of tombstones")
