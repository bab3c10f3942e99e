"""Records of other programs for each dialect: valid, contradictory, truncated, or random."""

from hypothesis import strategies as st

from punctual.contract import headers as names
from tests.punctual.contract.foreign import DUE, EXAMPLES
from tests.punctual.contract.records import NOW, FakeRecord

_OURS = sorted(names.REQUEST | names.IGNORED | {"delay-nonsense"})
_SAID = [b"", b"0", b"1", b"-1", b"%d" % DUE, b"1893456000", b"PT1M", b"cancel", b"schedule", b"reschedule", b"\xff"]


def _records(
    own: dict[str, list[bytes]], values: st.SearchStrategy[bytes | None] | None = None
) -> st.SearchStrategy[FakeRecord]:
    """Return records in which each header may be missing, there twice, sensible or anything."""
    anything = st.binary(max_size=12)

    def headers(name: str, said: list[bytes]) -> st.SearchStrategy[tuple[str, bytes | None]]:
        return st.tuples(st.just(name), st.one_of(st.sampled_from(said), anything, st.none()))

    known = [headers(name, [*said, *said, *_SAID]) for name, said in own.items()]
    ours = [headers(name, _SAID) for name in _OURS]
    users = st.tuples(st.text(max_size=8), anything)
    mixed: st.SearchStrategy[list[tuple[str, bytes | None]]] = st.builds(
        lambda *parts: [pair for part in parts for pair in part],
        *(st.lists(one, max_size=1) for one in known),
        st.lists(st.one_of(*known, *ours, users) if known else st.one_of(*ours, users), max_size=2),
    )
    content = st.one_of(st.none(), st.binary(max_size=20))
    return st.builds(
        FakeRecord,
        mixed,
        st.one_of(content, st.sampled_from([b"id", b"id", b" "])),
        content if values is None else values,
        topic=st.just("foreign"),
        timestamp=st.sampled_from([NOW, NOW, -1]),
    )


def _json(parts: dict[str, list[str]]) -> st.SearchStrategy[bytes | None]:
    """Return values: objects whose fields may be missing, sensible or not, or anything."""
    some = {name: st.sampled_from(said) for name, said in parts.items()}
    objects = st.fixed_dictionaries({}, optional=some).map(
        lambda body: ("{" + ",".join(f'"{name}":{text}' for name, text in body.items()) + "}").encode()
    )
    return st.one_of(st.none(), st.binary(max_size=40), objects)


#: Records with more values than those of the dialect's example.
_CHOSEN = {
    "countdown": _records(
        {},
        _json(
            {
                "topic": ['"t"', '"t"', "1", "null"],
                "message": ['"m"', '{"a":[1.0]}', "null", '"\\ud800"'],
                "countdown": ["1", "1.5", "-1", "1e999999", '"1"', "null", "true", "[]"],
            }
        ),
    ),
    "airtel": _records(
        {},
        _json(
            {
                "topic": ['"t"', '"t"', "1", "null"],
                "key": ['"k"', "null", "1"],
                "value": ['"m"', '{"a":[1.0]}', "null", '"\\ud800"'],
                "headers": ["{}", "null", '{"a":"b","c":null}', '{"a":1}', '{"delay-id":"a"}'],
                "postTime": [str(DUE), str(DUE), "-1", "1e3", "1893456000", "9" * 40, "true", "null"],
                "failurePostCallbackUrl": ['""', '"https://a"', "7"],
            }
        ),
    ),
    "etf1": _records(
        {
            "scheduler-epoch": [b"1893456000"],
            "scheduler-target-topic": [b"orders"],
            "scheduler-target-key": [b"k"],
            "scheduler-timestamp": [b"1"],
        }
    ),
    "karafka": _records(
        {
            "schedule_schema_version": [b"1.0.0"],
            "schedule_source_type": [b"schedule", b"cancel", b"tombstone"],
            "schedule_target_epoch": [b"1893456000"],
            "schedule_target_topic": [b"orders"],
            "schedule_target_key": [b"k"],
            "schedule_target_partition": [b"1"],
            "schedule_target_partition_key": [b"k"],
        }
    ),
    "nats": _records(
        {
            "Nats-Schedule": [b"@at 2030-01-01T00:00:00Z", b"@every 1m", b"@at 1"],
            "Nats-Schedule-Target": [b"orders"],
            "Nats-Schedule-TTL": [b"5m"],
            "Nats-Schedule-Rollup": [b"sub"],
            "Nats-Schedule-Next": [b"purge"],
            "Nats-Scheduler": [b"a"],
            "nats-ttl": [b"1"],
        }
    ),
    "spring": _records(
        {
            "retry_topic-backoff-timestamp": [DUE.to_bytes(8), DUE.to_bytes(6), b"%d" % DUE, b"\xff" * 8],
            "deliverAfter": [],
        }
    ),
    "deliver-after": _records({"deliverAfter": [b"%d" % DUE, b"\xc2\xb2"]}),
    "publish-after": _records({"publish-after-ts": [b"%d" % DUE, b"2030-01-01T00:00:00Z", b"2022-09-01 00:00:00"]}),
}
#: Records for an input of each dialect.
FUZZED = {
    name: _records({header: [value or b""] for header, value in example.headers}) for name, example in EXAMPLES.items()
} | _CHOSEN
