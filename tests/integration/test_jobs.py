"""Jobs: actions on all messages that match a filter, on a real Kafka with two workers."""

import itertools
import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from app.serve.actions.job_part import BATCH
from punctual.cli.exits import Exit
from tests.harness.account import Account
from tests.harness.kafka import now_ms, read
from tests.harness.waiting import PROGRAM_S, ask_until, eventually
from tests.harness.worker import Worker, await_sharing
from tests.integration.conftest import Run
from tests.integration.installation import PARTITIONS, Installation
from tests.integration.test_actions import HOUR_MS, get, post
from tests.integration.test_cli import process

pytestmark = pytest.mark.slow


def fill(installation: Installation, count: int, prefix: str = "") -> tuple[str, str]:
    """Schedule `count` messages, in turn for two destinations, and wait until all are accepted."""
    topics = installation.topic(), installation.topic()
    due, prefix = now_ms() + HOUR_MS, prefix or installation.new_id()
    for number, to in zip(range(count), itertools.cycle(topics), strict=False):
        installation.requests.schedule(f"{prefix}-{number}", due + number, to, b"v")
    installation.requests.flush()
    for to in topics:
        await_count(installation, count // 2, to=to)
    return topics


def counted(installation: Installation, **query: object) -> int:
    """Return the number of matching messages."""
    text = "&".join(f"{name}={said}" for name, said in query.items())
    return int(get(installation, f"/messages/count?{text}")[1].get("matching", -1))


def await_count(installation: Installation, count: int, **query: object) -> None:
    """Wait until `count` messages match: an action's change becomes visible a moment after its event."""
    ask_until(lambda: counted(installation, **query), lambda found: found == count, f"{count} messages of {query}")


def given(installation: Installation, act: str, confirm: int, wanted: dict[str, Any], **more: object) -> str:
    """Start a job; return its id."""
    status, answer = post(installation, "/jobs", {"act": act, "filter": wanted, "confirm": confirm, **more})
    assert status == 202, answer
    return str(answer["job"]["job_id"])


def over(installation: Installation, job_id: str, seconds: float = 60) -> dict[str, Any]:
    """Wait until a job is done, and return how it stands."""
    eventually(lambda: get(installation, f"/jobs/{job_id}")[1].get("state") == "done", seconds, "the job")
    standing: dict[str, Any] = get(installation, f"/jobs/{job_id}")[1]
    return standing


def test_all_matching_messages_and_no_others_are_cancelled_even_if_a_worker_is_killed(run: Run, tmp_path: Path) -> None:
    with (
        run("jobs-killed") as installation,
        Worker(installation.bootstrap, installation.app_id, tmp_path / "second", env=installation.worker.env) as second,
    ):
        second.start().wait_ready()
        await_sharing(installation.worker, second)
        hit, spared = fill(installation, 40_000, "order")
        job_id = given(installation, "cancel", 20_000, {"to": hit})
        # The job leaves messages alone that are scheduled after it, though they match.
        installation.requests.schedule("order-0", now_ms() + HOUR_MS, hit, b"later")
        installation.requests.schedule("newcomer", now_ms() + HOUR_MS, hit, b"later")
        installation.requests.flush()
        eventually(lambda: 0 < get(installation, f"/jobs/{job_id}")[1].get("sent", 0) < 15_000, what="the beginning")
        second.kill()
        time.sleep(0.5)
        second.start().wait_ready()
        standing = over(installation, job_id)

        await_count(installation, 20_000, to=spared)
        await_count(installation, 2, to=hit)
        assert get(installation, "/messages/order-0")[0] == 200
        assert standing["partitions_over"] == standing["partitions"]
        account = Account.settled(installation.bootstrap, installation.app_id, pending=20_002)
        # The job may have come to order-0 before its replacement did.
        assert account.sums["cancelled"] + account.sums.get("replaced", 0) == 20_000
        assert account.sums["pending"] == 20_002
        # The batch under way is counted too, and no message twice.
        assert standing["outcomes"]["cancelled"] == account.sums["cancelled"]
        assert standing["untold"] == 0
        assert standing["sent"] - sum(standing["outcomes"].values()) == 0
        assert sum(number for kind, number in standing["outcomes"].items() if kind != "cancelled") <= 1  # order-0


@pytest.mark.core
def test_a_job_moves_all_that_match_and_says_so_in_the_audit(installation: Installation) -> None:
    hit, spared = fill(installation, 1_000, "moved")
    due = now_ms() + 5 * HOUR_MS
    job_id = given(installation, "reschedule", 500, {"to": hit}, at=due)
    standing = over(installation, job_id)
    assert standing["outcomes"] == {"rescheduled": 500}
    await_count(installation, 500, to=hit, due_from=due, due_to=due)
    await_count(installation, 500, to=spared, due_to=due - 1)
    acts = [act for act in get(installation, "/audit")[1]["acts"] if act["target"] == f"job {job_id}"]
    assert [(act["act"], act["outcome"]) for act in acts] == [("reschedule all", "sent")]

    standing = over(installation, given(installation, "deliver-now", 500, {"id_prefix": "moved-", "to": spared}))
    assert standing["outcomes"] == {"rescheduled": 500}
    assert len(installation.wait_for(spared, 500)) == 500


@pytest.mark.core
def test_the_audit_keeps_no_key_and_no_value_of_a_header_that_a_job_names(installation: Installation) -> None:
    to = installation.topic()
    due = {"delay-to": to, "delay-at": str(now_ms() + HOUR_MS), "delay-id": "noted", "diagnosis": "flu"}
    installation.requests.send(due, b"customer-4-is-ill")
    installation.requests.flush()
    await_count(installation, 1, to=to)
    over(installation, given(installation, "cancel", 1, {"key": "customer-4-is-ill", "header": "diagnosis:flu"}))

    kept = b"".join(record.value or b"" for record in read(installation.bootstrap, f"{installation.app_id}-audit"))
    assert b'"filter":{"key":"masked","header":"diagnosis:masked"}' in kept
    assert b"customer-4" not in kept
    assert b"flu" not in kept


@pytest.mark.core
def test_a_job_acts_on_as_many_as_were_confirmed_and_says_that_more_match(installation: Installation) -> None:
    hit, spared = fill(installation, 2_000)
    for most, left in ((7, 993), (600, 393)):
        job_id = given(installation, "cancel", most, {"to": hit})
        standing = ask_until(
            lambda path=f"/jobs/{job_id}": get(installation, path)[1],  # type: ignore[misc]
            lambda standing: standing.get("state") == "limited",
            "the bound",
        )
        assert (standing["sent"], standing["outcomes"]) == (most, {"cancelled": most})
        await_count(installation, left, to=hit)
    command = process("cancel", "--to", hit, "--at-most", "100", "--url", installation.worker.url)
    _, err = command.communicate(timeout=PROGRAM_S)
    assert (command.returncode, "more messages match" in err) == (Exit.INCOMPLETE, True), err
    await_count(installation, 293, to=hit)
    await_count(installation, 1_000, to=spared)


@pytest.mark.core
def test_a_job_ends_every_series_even_if_occurrences_are_delivered_in_between(installation: Installation) -> None:
    to, count = installation.topic(), 100
    for number in range(count):
        headers = {"delay-id": f"series-{number}", "delay-to": to, "delay-every": "PT1S"}
        installation.requests.send(headers, b"", b"v")
    installation.requests.flush()
    await_count(installation, count, to=to)
    standing = over(installation, given(installation, "cancel", count, {"to": to}))

    assert standing["outcomes"] == {"cancelled": count}
    await_count(installation, 0, to=to)


def test_a_message_is_moved_once_even_if_it_matches_again(installation: Installation) -> None:
    hit, _ = fill(installation, 8_000)  # several batches a partition, all moved to before where the scan is
    due = now_ms() + 5 * HOUR_MS
    standing = over(installation, given(installation, "reschedule", 4_000, {"to": hit}, at=due))
    assert standing["outcomes"] == {"rescheduled": 4_000}
    await_count(installation, 4_000, to=hit, due_from=due, due_to=due)


def test_a_message_without_an_id_that_is_scheduled_during_a_job_survives_it(installation: Installation) -> None:
    hit, _ = fill(installation, 20_000)
    job_id = given(installation, "cancel", 10_000, {"to": hit})
    for partition in range(PARTITIONS):  # later than the rest of the job's range
        headers = {"delay-at": str(now_ms() + 3 * HOUR_MS), "delay-to": hit}
        installation.requests.send(headers, value=b"survivor", partition=partition)
    installation.requests.flush()
    standing = over(installation, job_id)
    assert standing["outcomes"] == {"cancelled": 10_000}
    await_count(installation, PARTITIONS, to=hit)


def test_ctrl_c_leaves_a_job_to_the_workers_and_says_how_to_follow_it(installation: Installation) -> None:
    hit, spared = fill(installation, 20_000)
    following = process("cancel", "--to", hit, "--yes", "--url", installation.worker.url)
    [standing] = ask_until(
        lambda: [one for one in get(installation, "/jobs")[1].get("jobs", []) if one["job"]["filter"] == {"to": hit}],
        bool,
        "the job",
    )
    job_id = standing["job"]["job_id"]
    assert standing["state"] == "running", "it was over before anybody could lose patience"
    time.sleep(0.2)  # it has the first answer, and polls
    following.send_signal(signal.SIGINT)
    out, err = following.communicate(timeout=PROGRAM_S)
    assert (following.returncode, out) == (Exit.INTERRUPTED, "")
    assert err.startswith(f"the workers continue job {job_id}: `punctual jobs {job_id}` follows it, --stop stops it\n")
    assert "Traceback" not in err

    again = process("jobs", job_id, "--format", "json", "--url", installation.worker.url)
    out, _ = again.communicate(timeout=PROGRAM_S)
    assert (again.returncode, json.loads(out)["outcomes"]) == (Exit.DONE, {"cancelled": 10_000})
    await_count(installation, 0, to=hit)
    await_count(installation, 10_000, to=spared)


@pytest.mark.core
def test_a_job_that_is_stopped_goes_no_further(installation: Installation) -> None:
    hit, _ = fill(installation, 20_000)
    job_id = given(installation, "cancel", 10_000, {"to": hit})
    status, standing = post(installation, f"/jobs/{job_id}/stop")
    assert (status, standing["state"]) == (200, "stopped")
    most = standing["sent"] + PARTITIONS * BATCH  # of each partition one batch may be on its way
    assert most < 10_000, "it was nearly over before it was stopped"
    seen = [-1]

    def settled() -> bool:
        time.sleep(2.0)
        seen.append(counted(installation, to=hit))
        return seen[-1] == seen[-2]

    eventually(settled, what="the end of all cancels")
    assert 10_000 - seen[-1] <= most


@pytest.mark.core
@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"act": "cancel", "filter": {}, "confirm": 0}, 422, "confirm: Expected `int` >= 1"),
        ({"act": "forget", "filter": {}, "confirm": 7}, 422, "act: Invalid enum value 'forget'"),
        ({"act": "cancel", "filter": {}}, 422, "missing required field `confirm`"),
        ({"act": "cancel", "filter": {"two": "orders"}, "confirm": 7}, 400, "filter must be an object"),
        ({"act": "reschedule", "filter": {}, "confirm": 7}, 400, "needs at or after"),
        ({"act": "cancel", "filter": {}, "confirm": 7, "after": 5}, 400, "other actions do not accept them"),
        ({"act": "cancel", "filter": {"due_to": "soon"}, "confirm": 7}, 400, "is not a time"),
    ],
)
def test_a_job_that_makes_no_sense_is_refused(
    installation: Installation, body: dict[str, Any], status: int, says: str
) -> None:
    answered, answer = post(installation, "/jobs", body)
    assert (answered, says in answer["detail"]) == (status, True), answer


@pytest.mark.core
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_job_starts_even_if_its_topic_ends_with_a_commit_marker(run: Run, guarantee: str) -> None:
    with run("jobs-marks", env=lambda _: {"DELAY_GUARANTEE": guarantee}) as installation:
        to = installation.topic()
        for number in range(20):  # most are forwarded: they are in a partition other than their home
            headers = {"delay-id": f"away-{number}", "delay-to": to, "delay-at": str(now_ms() + HOUR_MS)}
            installation.requests.send(headers, b"one key", b"v")
        installation.requests.flush()
        await_count(installation, 20)

        standing = over(installation, given(installation, "cancel", 20, {"to": to}), 20)
        assert standing["outcomes"] == {"cancelled": 20}
