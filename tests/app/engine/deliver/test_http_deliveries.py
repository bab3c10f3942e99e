"""Messages for URLs, from the due loop to the answer, with a client that answers as the test says."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import pytest

from app.base.http.allow_list import Allowed
from app.base.http.answers import TAKEN, HttpOutcome, Meaning, answer_of
from app.base.http.hosts import AILING, FIRST
from app.base.http.target import UrlTarget
from app.engine.reports.progress import ProgressReporter
from tables import Entry
from tests.app.engine.due.test_unread_inputs import Behind
from tests.app.stage import Stage
from tests.harness.waiting import LIMIT_S

if TYPE_CHECKING:
    from app.engine.traces.traces import Traces
    from app.kafka import Sender

GONE = HttpOutcome(Meaning.NEVER, "HTTP 410")
DEAD = HttpOutcome(Meaning.AGAIN, "no connection", of_host=True)
POISON = answer_of(500, None, 0)
HOUR = 3_600_000


class Posted(NamedTuple):
    """A request."""

    url: str
    body: bytes
    headers: dict[str, str]


class Script:
    """Stands where app.base.http.client.HttpClient stands."""

    def __init__(self) -> None:
        """Take everything."""
        self.posted: list[Posted] = []
        self.now = Counter[str]()
        self.most = Counter[str]()
        self.answers: dict[str, HttpOutcome] = defaultdict(lambda: TAKEN)
        self.open = asyncio.Event()
        self.open.set()

    async def post(self, to: Allowed, body: bytes, headers: Sequence[tuple[str, str]]) -> HttpOutcome:
        url, host = str(to.target.url), to.target.origin
        self.posted.append(Posted(url, body, {name.lower(): value for name, value in headers}))
        self.now[host] += 1
        self.most[host] = max(self.most[host], self.now[host])
        try:
            await self.open.wait()
        finally:
            self.now[host] -= 1
        return self.answers[url] if url in self.answers else self.answers[host]

    async def stop(self) -> None:
        """Nothing is open."""

    def bodies(self) -> list[bytes]:
        return [posted.body for posted in self.posted]


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
async def stage(tmp_path: Path, script: Script) -> AsyncIterator[Stage]:
    env = {"DELAY_HTTP_DESTINATIONS": "*", "DELAY_HTTP_HEADERS": "x-*", "DELAY_CALLBACKS": "https://*"}
    async with Stage(tmp_path, 1, **env) as made:
        made.due.http._posts._client = script
        yield made
        script.open.set()
        await until(made, lambda: not made.partition.claims)


async def until(stage: Stage, condition: Callable[[], object]) -> None:
    """Fire until something has come about."""
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            stage.fire()
            await asyncio.sleep(0.001)


async def ask(stage: Stage, id_: str, url: str = "https://a.example/x", late: int = 0, **said: str) -> None:
    await stage.schedule(id_, late, delay_to=url, **said)


async def test_it_is_posted_when_due_and_not_before(stage: Stage, script: Script) -> None:
    await ask(stage, "a", late=-100, x_tenant="7")
    stage.fire()
    await asyncio.sleep(0.01)
    assert not script.posted
    stage.clock.pass_by(100)
    await until(stage, stage.told)

    [posted] = script.posted
    assert (posted.url, posted.headers["delay-id"], posted.headers["delay-attempt"]) == (
        "https://a.example/x",
        "a",
        "1",
    )
    assert stage.told() == ["delivered a"]
    assert stage.sender.ids() == []


async def test_each_attempt_is_traced_if_tracing_is_on(stage: Stage, script: Script) -> None:
    told: list[tuple[str, str, int, int]] = []

    class Recorder:
        def posted(self, entry: Entry, to: UrlTarget, answer: HttpOutcome, began_ms: int) -> None:
            told.append((entry.id, str(to.url), answer.status, began_ms))

    stage.due.http._posts._traces = cast("Traces", Recorder())
    script.answers["https://a.example/x"] = POISON
    began = stage.clock.wall
    await ask(stage, "a")
    await until(stage, lambda: told)
    assert told == [("a", "https://a.example/x", 500, began)]


async def test_a_row_between_tries_is_not_looked_at_until_its_time(stage: Stage, script: Script) -> None:
    script.answers["https://a.example/x"] = POISON
    await ask(stage, "a")
    await until(stage, lambda: stage.told() == ["attempted a"])
    reads = Counter[str]()
    due = stage.stores[0].due

    def counting(*args: object) -> object:
        found = due(*args)  # type: ignore[arg-type]
        reads["rows"] += len(found[0])
        return found

    stage.stores[0].due = counting  # type: ignore[method-assign,assignment]
    for _ in range(100):
        stage.fire()
    assert not reads["rows"]
    assert len(script.posted) == 1
    wait_s = stage.due.cycle(stage.clock.now_ms())
    assert 0 < wait_s <= 0.5
    stage.clock.pass_by(1_250)
    await until(stage, lambda: stage.told() == ["attempted a"] * 2)
    assert script.posted[-1].headers["delay-attempt"] == "2"
    assert not stage.partition.in_flight.quiet


async def test_a_restart_finds_the_next_try_in_the_row(stage: Stage, script: Script) -> None:
    script.answers["https://a.example/x"] = HttpOutcome(Meaning.AGAIN, "HTTP 503", after_ms=60_000)
    await ask(stage, "a")
    await until(stage, lambda: stage.told() == ["attempted a"])
    await stage.partition.pause(1)
    stage.begin(0)
    for _ in range(10):
        stage.fire()
        await asyncio.sleep(0)
    assert len(script.posted) == 1
    script.answers.clear()
    stage.clock.pass_by(60_000)
    await until(stage, lambda: stage.told()[-1] == "delivered a")
    assert script.posted[-1].headers["delay-attempt"] == "2"


async def test_a_message_cancelled_between_attempts_is_not_posted_again_and_delays_no_other(
    stage: Stage, script: Script
) -> None:
    script.answers["https://a.example/x"] = HttpOutcome(Meaning.AGAIN, "HTTP 500", after_ms=HOUR)
    await ask(stage, "a")
    await until(stage, lambda: stage.told() == ["attempted a"])
    await stage.ask(delay_op="cancel", delay_id="a")
    await stage.settle()

    assert stage.partition.in_flight.quiet
    assert stage.partition.in_flight.oldest(stage.stores[0]) is None
    stage.clock.pass_by(HOUR)
    stage.fire()
    await asyncio.sleep(0.01)
    assert len(script.posted) == 1


@pytest.mark.core
async def test_of_ten_thousand_for_a_dead_host_few_are_tried_and_others_go_on(stage: Stage, script: Script) -> None:
    script.answers["https://dead.example"] = DEAD
    await stage.take(
        0,
        [
            stage.logs[0].record(stage.clock.wall, delay_to="https://dead.example/", delay_at=str(stage.clock.wall - 5))
            for _ in range(10_000)
        ],
    )
    await until(stage, lambda: stage.due.http._posts._hosts.fails("https://dead.example"))
    for number in range(100):
        await ask(stage, f"well-{number}", f"https://well-{number % 10}.example/")
    await until(stage, lambda: sum("well" in told for told in stage.told()) == 100)

    dead = sum("dead" in posted.url for posted in script.posted)
    assert script.most["https://dead.example"] <= FIRST
    assert dead <= 3 * FIRST
    assert stage.partition.in_flight.held_ms() == {"https://dead.example": stage.clock.wall - 5}
    assert stage.due.http.trouble(("https://dead.example", "https://dead.example", -2)) == "no connection"


async def test_when_a_host_is_back_all_that_waited_is_posted(
    stage: Stage, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.base.http.hosts._PAUSE_S", 0.01)
    script.answers["https://dead.example"] = DEAD
    for number in range(300):
        await ask(stage, f"{number}", "https://dead.example/", 5)
    await until(stage, lambda: len(script.posted) > FIRST + 2)
    script.answers.clear()
    await until(stage, lambda: sum("delivered" in told for told in stage.told()) >= 250)
    stage.clock.pass_by(HOUR)
    await until(stage, lambda: sum("delivered" in told for told in stage.told()) == 300)
    assert not list(stage.stores[0].rows())
    assert stage.partition.in_flight.held_routes() == []


async def test_a_poisoned_message_leaves_its_host_to_others(stage: Stage, script: Script) -> None:
    script.answers["https://a.example/poison"] = POISON
    for number in range(50):
        await ask(stage, f"p{number}", "https://a.example/poison", 10)
        await ask(stage, f"w{number}", "https://a.example/well", 5)
    await until(stage, lambda: sum("delivered" in told for told in stage.told()) == 50)


async def test_expired_messages_of_a_failing_host_are_given_up_without_a_request_each(
    stage: Stage, script: Script
) -> None:
    script.answers["https://dead.example"] = DEAD
    for number in range(200):
        await ask(stage, f"{number}", "https://dead.example/", 3 * 24 * HOUR)
    await until(stage, lambda: len(stage.dead_letters) == 200)

    assert len(script.posted) <= 2 * FIRST
    errors = {dict(letter.headers)["delay-error"].decode() for letter in stage.dead_letters}
    assert any("accepted no messages, and this one is three days late: no connection." in error for error in errors)


async def test_a_changed_allow_list_applies_to_pending_messages(stage: Stage, script: Script) -> None:
    await ask(stage, "a", late=-10)
    writer = stage.due.http._posts._writer
    writer._destinations = replace(writer._destinations, allowed_urls={})
    stage.clock.pass_by(10)
    await until(stage, lambda: stage.dead_letters)

    assert not script.posted
    said = {name: (value or b"").decode() for name, value in stage.dead_letters[0].headers}
    assert (said["delay-reason"], said["delay-to"]) == ("not-allowed", "https://a.example/x")
    assert "no longer allows its URL, because it is not on the list of allowed URLs" in said["delay-error"]


async def test_it_is_late_by_policy_like_any_other(stage: Stage, script: Script) -> None:
    script.answers["https://a.example/x"] = POISON
    await ask(stage, "a", delay_max_late="5000", delay_if_late="drop")
    await until(stage, lambda: stage.told() == ["attempted a"])
    stage.clock.pass_by(60_000)
    await until(stage, lambda: stage.told()[-1] == "dropped a")


async def test_its_next_try_is_late_by_the_clock_when_unread_inputs_have_held_it_back(
    stage: Stage, script: Script
) -> None:
    script.answers["https://a.example/x"] = POISON
    await ask(stage, "a", delay_max_late="5000", delay_if_late="drop")
    await until(stage, lambda: stage.told() == ["attempted a"])
    stage.due.unread.liveness = behind = Behind()
    behind.all_s = 4.0
    stage.clock.pass_by(7_000)
    await until(stage, lambda: len(stage.told()) > 1)

    assert stage.told()[1:] == ["dropped a"]
    assert len(script.posted) == 1


async def test_a_message_that_waited_for_room_is_late_by_the_clock_when_unread_inputs_have_held_it_back(
    stage: Stage, script: Script
) -> None:
    script.open.clear()
    for number in range(FIRST):
        await ask(stage, f"{number}")
    await until(stage, lambda: len(script.posted) == FIRST)
    await ask(stage, "a", delay_max_late="5000", delay_if_late="drop")
    stage.fire()
    stage.due.unread.liveness = behind = Behind()
    behind.all_s = 4.0
    stage.clock.pass_by(7_000)
    script.open.set()
    await until(stage, lambda: len(stage.told()) > FIRST)

    assert "dropped a" in stage.told()
    assert len(script.posted) == FIRST


async def test_a_next_try_waits_until_inputs_are_read(stage: Stage, script: Script) -> None:
    script.answers["https://a.example/x"] = POISON
    await ask(stage, "a")
    await until(stage, lambda: stage.told() == ["attempted a"])
    stage.due.unread.liveness = behind = Behind()
    behind.all_s = 4.0
    stage.clock.pass_by(4_000)
    stage.fire()
    await asyncio.sleep(0.01)
    assert len(script.posted) == 1

    behind.all_s = 0.0
    await until(stage, lambda: len(script.posted) == 2)


async def test_hosts_that_fail_leave_room_for_callbacks_and_messages(stage: Stage, script: Script) -> None:
    for number in range(200):
        script.answers[f"https://dead-{number}.example"] = DEAD
        await ask(stage, f"{number}", f"https://dead-{number}.example/", 5)
    await until(stage, lambda: len(script.posted) >= 200)
    await stage.ask(delay_to="orders", delay_at="soon", delay_on_failure="https://well.example/")
    await ask(stage, "well", "https://well.example/")
    stage.clock.pass_by(1)
    await until(stage, lambda: sum("well.example" in posted.url for posted in script.posted) == 2)
    assert AILING < 200


async def test_a_posted_row_takes_no_room_from_messages_to_kafka(tmp_path: Path, script: Script) -> None:
    env = {"DELAY_HTTP_DESTINATIONS": "*", "DELAY_MAX_IN_FLIGHT": "2"}
    async with Stage(tmp_path, 1, 2, **env) as stage:
        stage.due.http._posts._client = script
        script.open.clear()
        for number in range(50):
            await ask(stage, f"{number}", f"https://h{number}.example/", 5)
        await stage.schedule("topic")
        await until(stage, lambda: stage.sender.ids() == ["topic"])
        stage.sender.accept()
        script.open.set()
        await until(stage, lambda: not stage.partition.claims and not list(stage.stores[0].rows()))


async def test_a_message_that_waits_for_its_next_attempt_is_not_overdue(stage: Stage, script: Script) -> None:
    script.answers["https://a.example/x"] = HttpOutcome(Meaning.AGAIN, "HTTP 500", after_ms=HOUR)
    await ask(stage, "a")
    await until(stage, lambda: stage.told() == ["attempted a"])
    stage.clock.pass_by(10_000)
    sender = cast("Sender", None)
    now = stage.clock.now_ms()
    said = ProgressReporter(stage.settings, stage.clock, sender, stage.due).record(stage.partition, now, {}, {})

    assert (said["overdue"], said["retrying"], said["pending"]) == (0, 1, {"https://a.example": 1})
    assert said["fired_to"] == said["next_due"] - 1 == now - 10_001


async def test_an_origin_is_paused_whatever_the_path_and_its_neighbours_go_on(stage: Stage, script: Script) -> None:
    stage.control("https://A.example:443", paused=True)
    for number in range(3):
        await ask(stage, f"{number}", f"https://a.example/{number}", late=10 - number)
    await ask(stage, "beside", "https://b.example/")
    await until(stage, stage.told)
    for _ in range(5):
        stage.fire()
        await asyncio.sleep(0.002)
    assert stage.told() == ["delivered beside"]
    stage.control("https://A.example:443")

    await until(stage, lambda: len(stage.told()) == 4)
    assert len(script.posted) == 4


async def test_an_origin_has_a_cap_and_tries_count(tmp_path: Path, script: Script) -> None:
    env = {"DELAY_HTTP_DESTINATIONS": "*", "DELAY_RATES": "https://a.example=50/s"}
    async with Stage(tmp_path, 1, **env) as stage:
        stage.due.http._posts._client = script
        for number in range(30):
            await ask(stage, f"{number}", f"https://a.example/{number}", late=1_000 - number)
        script.answers["https://a.example/0"] = POISON
        for _ in range(20):  # 400 ms
            stage.clock.pass_by(20)
            stage.fire()
            await asyncio.sleep(0.005)
        await stage.until(lambda: len(script.posted) >= 18)
        assert len(script.posted) < 23
        script.answers.clear()
        await stage.settle()
        assert await drained(stage)


async def drained(stage: Stage) -> bool:
    """Let time pass until no message is pending."""
    async with asyncio.timeout(LIMIT_S):
        while stage.partition.store.counts.total:
            stage.clock.pass_by(20)
            stage.fire()
            await asyncio.sleep(0.002)
    return True


async def test_a_paused_origin_gets_no_requests_and_retries_wait_too(stage: Stage, script: Script) -> None:
    script.answers["https://a.example/x"] = POISON
    await ask(stage, "tried")
    await until(stage, lambda: stage.told() == ["attempted tried"])
    script.answers.clear()
    stage.control("https://a.example", paused=True)
    await ask(stage, "new", "https://a.example/y")
    await ask(stage, "other", "https://b.example/")
    stage.clock.pass_by(2_000)
    await until(stage, lambda: "delivered other" in stage.told())
    for _ in range(20):
        stage.fire()
        await asyncio.sleep(0)
    assert [posted.headers["delay-id"] for posted in script.posted] == ["tried", "other"]
    stage.control("https://a.example")
    await until(stage, lambda: {"delivered tried", "delivered new"} <= set(stage.told()))


async def test_a_capped_origin_gets_no_more_than_its_cap(tmp_path: Path, script: Script) -> None:
    env = {"DELAY_HTTP_DESTINATIONS": "*", "DELAY_RATES": "https://a.example=10/s"}
    async with Stage(tmp_path, 1, **env) as stage:
        stage.due.http._posts._client = script
        for number in range(60):
            await ask(stage, f"{number}", f"https://a.example/{number}", 5)
            await ask(stage, f"other {number}", f"https://b.example/{number}", 5)
        for _ in range(300):
            stage.clock.pass_by(10)
            stage.fire()
            await asyncio.sleep(0)
        await until(stage, lambda: sum("other" in told for told in stage.told()) == 60)
        await until(stage, lambda: sum("a.example" in one.url for one in script.posted) >= 25)
        assert sum("a.example" in one.url for one in script.posted) <= 33
        for _ in range(400):
            stage.clock.pass_by(10)
            stage.fire()
            await asyncio.sleep(0)
        await until(stage, lambda: len(stage.told()) == 120)


async def test_messages_that_wait_for_their_host_keep_waiting_when_the_clock_is_set_back(
    stage: Stage, script: Script
) -> None:
    script.open.clear()
    for number in range(FIRST + 1):
        await ask(stage, f"{number}")
    await until(stage, lambda: len(script.posted) == FIRST)
    stage.clock.pass_by(0, jump=-60_000)
    script.open.set()
    await until(stage, lambda: len(stage.told()) == FIRST)
    for _ in range(3):
        stage.clock.pass_by(1_000)
        stage.fire()
    assert len(script.posted) == FIRST, "the last one is not due any more"
    stage.clock.pass_by(60_000)

    await until(stage, lambda: len(stage.told()) == FIRST + 1)


@pytest.mark.parametrize("answer", [DEAD, GONE])
async def test_a_failure_that_comes_after_its_life_is_not_that_of_the_next_ones_request(
    stage: Stage, script: Script, answer: HttpOutcome
) -> None:
    script.answers["https://a.example"] = answer
    first, second = asyncio.Event(), asyncio.Event()
    script.open = first
    await ask(stage, "a")
    await until(stage, lambda: script.posted)
    await stage.partition.pause(0)
    script.open = second
    stage.begin(0)
    await until(stage, lambda: len(script.posted) == 2)
    first.set()
    await asyncio.sleep(0.01)
    script.answers["https://a.example"] = TAKEN
    second.set()
    await until(stage, lambda: not stage.stores[0].counts.total)

    assert stage.told() == ["delivered a"]
    assert len(script.posted) == 2
