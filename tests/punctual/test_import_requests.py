"""What asks for an exported message once more."""

from typing import Any

import msgspec
import pytest

from app.engine.ingest.pending_rows import row_of
from punctual.cli.errors import CommandError, Incomplete, TooLate
from punctual.cli.exits import Exit
from punctual.cli.exported import Exported, ExportedBytes
from punctual.cli.import_requests import id_elsewhere, is_automatic, requests_of
from punctual.cli.importing import ImportCounts, _ended
from punctual.contract.dialects.dialects import NATIVE
from punctual.contract.jitter import spread
from punctual.contract.policies import parse_policies, with_policies
from punctual.contract.record import PlainRecord
from punctual.contract.request import ID_BYTES, Refusal
from punctual.contract.times import LONGEST_MS

DUE_MS, HOUR_MS = 1_795_611_600_000, 3_600_000
EVERY = {"every": "PT1H", "planned_ms": DUE_MS}
JITTERED = {**EVERY, "jitter": "90000"}


def line(**said: Any) -> Exported:
    usual = {
        "app_id": "delay",
        "exported_ms": DUE_MS - HOUR_MS,
        "id": "a",
        "to": "t",
        "due_ms": DUE_MS,
        "source": "s-0-1",
    }
    return Exported(**{**usual, **said})


def asked(exported: Exported) -> list[dict[str, str]]:
    """Return the headers of each record, without the user's own."""
    return [
        {
            name.removeprefix("delay-"): (value or b"").decode()
            for name, value in one.headers
            if name.startswith("delay-")
        }
        for one in requests_of(exported, exported.id)
    ]


def test_an_imported_message_has_its_original_options_and_stamp() -> None:
    exported = line(
        key="k", value=ExportedBytes(b"\xff"), headers=[("h", "1"), ("h", None)], asked_ms=DUE_MS - 2 * HOUR_MS
    )

    [request] = requests_of(exported, "a")

    assert (request.key, request.value, request.id) == (b"k", b"\xff", b"a")
    assert request.headers[:2] == (("h", b"1"), ("h", None))
    said = {"id": "a", "to": "t", "at": str(DUE_MS), "asked-at": str(DUE_MS - 2 * HOUR_MS)}
    none = {"jitter": "0", "max-late": str(LONGEST_MS), "no-later": str(LONGEST_MS)}
    assert asked(exported) == [said | none]


def test_a_message_without_a_known_time_has_the_time_of_the_export() -> None:
    assert asked(line())[0]["asked-at"] == str(DUE_MS - HOUR_MS)


@pytest.mark.parametrize(
    ("asked_ms", "says_asked_ms", "no_later_ms"),
    [(DUE_MS - 9, DUE_MS - 9, 9), (DUE_MS + 9, DUE_MS, 0), (None, DUE_MS - HOUR_MS, HOUR_MS)],
)
def test_a_bound_ends_when_it_did(asked_ms: int | None, says_asked_ms: int, no_later_ms: int) -> None:
    [said] = asked(line(asked_ms=asked_ms, latest_ms=DUE_MS, asked_due_ms=DUE_MS + HOUR_MS))

    assert (int(said["at"]), int(said["asked-at"]), int(said["no-later"])) == (
        DUE_MS + HOUR_MS,
        says_asked_ms,
        no_later_ms,
    )


@pytest.mark.parametrize(
    ("due_ms", "more", "following"),
    [
        (DUE_MS, {}, []),
        (DUE_MS + 5, {}, [("reschedule", str(DUE_MS + 5))]),
        (DUE_MS + 5, {"paused": True}, [("pause", None)]),
        (DUE_MS - 5, {"extra": True}, [("deliver-now", None)]),
    ],
)
def test_a_series_goes_on_from_where_it_was(due_ms: int, more: dict[str, bool], following: list[Any]) -> None:
    first, *rest = asked(line(due_ms=due_ms, every="60000", count="3", planned_ms=DUE_MS, **more))

    assert (first["at"], first["every"], first["count"]) == (str(DUE_MS), "60000", "3")
    assert [(one["op"], one.get("at")) for one in rest] == following
    assert {one["id"] for one in rest} <= {"a"}
    assert {one["asked-at"] for one in rest} <= {first["asked-at"]}


@pytest.mark.parametrize(
    "policies",
    [*(ONE := ("no-later PT1M", "jitter PT5M", "max-late PT1H if-late drop", "dedupe P7D")), " ".join(ONE)],
)
@pytest.mark.parametrize(
    "exported",
    [
        line(),
        line(max_late=5, if_late="dead-letter", dedupe=7),
        line(max_late=5),
        line(asked_ms=DUE_MS - 9 * HOUR_MS, latest_ms=DUE_MS, asked_due_ms=DUE_MS + HOUR_MS),
        line(**EVERY),
        line(due_ms=DUE_MS + 5, **EVERY),
        line(due_ms=spread("a", DUE_MS, 90_000), **JITTERED),
        line(due_ms=DUE_MS + 5, **JITTERED),
    ],
    ids=["plain", "late", "late alone", "bounded", "series", "moved", "jittered", "jittered and moved"],
)
def test_policies_of_the_input_have_no_effect(exported: Exported, policies: str) -> None:
    with_them, asked_ms = with_policies(NATIVE, parse_policies(policies)), exported.asked_ms or exported.exported_ms
    first, *rest = (
        with_them.decode(PlainRecord("delay-requests", 0, 5, asked_ms, one.key, one.value, one.headers))
        for one in requests_of(exported, exported.id)
    )

    due_ms, row = row_of(first).within(first.due_ms)
    assert [*(one.due_ms for one in rest), due_ms][0] == exported.due_ms
    assert (row.max_late_ms, row.if_late) == (exported.max_late, exported.if_late)
    assert (row.no_later_ms is None) == (exported.latest_ms is None)
    if exported.dedupe is not None or "dedupe" not in policies:
        assert row.dedupe_ms == exported.dedupe
    if first.recurrence is not None:
        assert (first.recurrence.jitter_ms or 0) == (90_000 if exported.jitter else 0)


def test_a_request_that_a_worker_would_refuse_is_refused_here() -> None:
    with pytest.raises(Refusal, match="delay-if-late needs delay-max-late"):
        requests_of(line(headers=[("delay-if-late", "drop")]), "a")


@pytest.mark.parametrize(
    ("id_", "source", "automatic"),
    [
        ("delay-requests-3-7", "delay-requests-3-7", True),
        ("delay-requests-3-7", "delay-requests-0-9", True),
        ("schedules-0-1", "schedules-0-1", True),
        ("delay-requests-3-7~2~orders", "delay-requests-3-7", True),
        ("orders-3-7~2~orders", "delay-requests-3-7", False),
        ("orders-3-7", "delay-requests-3-7", False),
        ("mine", "delay-requests-3-7", False),
    ],
)
def test_ids_that_punctual_gives_are_known(id_: str, source: str, automatic: bool) -> None:  # noqa: FBT001
    assert is_automatic(line(id=id_, source=source)) is automatic


def test_an_id_elsewhere_is_the_same_each_time_and_short_enough_for_a_series() -> None:
    assert id_elsewhere(line(id="delay-requests-3-7")) == "delay/delay-requests-3-7"
    long = [id_elsewhere(line(id=f"{'x' * 245}-{number}")) for number in (1, 2, 1)]
    assert long[0] == long[2] != long[1]
    assert all(len(id_) <= ID_BYTES - 16 for id_ in long)


def test_a_forced_import_has_the_current_time() -> None:
    now_ms = DUE_MS - 5
    [request] = requests_of(line(asked_ms=DUE_MS - 2 * HOUR_MS), "a", now_ms)

    assert dict(request.headers)["delay-asked-at"] == b"%d" % now_ms


@pytest.mark.parametrize(
    ("counts", "error"),
    [
        (ImportCounts(accepted=1, refused=1), CommandError),
        (ImportCounts(accepted=1, outdated=1), TooLate),
        (ImportCounts(accepted=1, unknown=1), Incomplete),
    ],
)
def test_an_import_is_done_if_all_messages_were_accepted(counts: ImportCounts, error: type[CommandError]) -> None:
    assert _ended(ImportCounts(accepted=2)) is Exit.DONE
    with pytest.raises(error):
        _ended(counts)


def test_a_due_time_that_was_changed_in_the_file_applies() -> None:
    [said] = asked(line(at="2030-01-01T00:00:00Z"))
    assert said["at"] == "1893456000000"
    first, *rest = asked(line(at="2030-01-01T00:00:00Z", due_ms=DUE_MS, **EVERY))
    assert (first["at"], [one["op"] for one in rest]) == ("1893456000000", ["reschedule"])


def test_a_file_of_an_earlier_version_is_read() -> None:
    former = {
        "app_id": "delay",
        "exported_ms": DUE_MS - HOUR_MS,
        "id": "a",
        "to": "t",
        "due_ms": DUE_MS + 5,
        "source": "s-0-1",
        "cluster": "eu",
        "headers": [["h", {"base64": "/w=="}]],
        "policies": {"max_late_ms": 5, "if_late": "drop", "partition": 3},
        "series": {"headers": {"delay-every": "PT1H"}, "planned_ms": DUE_MS, "paused": True, "paused_since_ms": 7},
    }
    now = line(due_ms=DUE_MS + 5, to_cluster="eu", headers=[("h", ExportedBytes(b"\xff"))], max_late=5, if_late="drop",
               to_partition=3, paused=True, paused_since_ms=7, **EVERY)  # fmt: skip

    assert Exported.read(msgspec.json.encode(former)) == now
    assert Exported.read(msgspec.json.encode(now)) == now
