"""A job that resends dead letters sends each letter once, and does not report refused letters as sent."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Self

import msgspec
import pytest
from aiokafka.record.memory_records import MemoryRecords

from app.kafka.errors import NotAuthorised, Recalled, SendError, TooLarge
from app.kafka.metadata.reader import Stored
from app.kafka.produce.batch import Ack, Batch
from app.serve.actions import resend_part
from app.serve.actions.job import Job, PartProgress
from app.serve.actions.job_log import JobLog
from app.serve.actions.resend_part import ResendPart
from app.serve.dead_letters.dead_letter import DeadLetter, DeadLetterFilter
from app.serve.search.filter import Filter
from app.settings.settings import Settings
from punctual.contract.namespaces import Namespaces

SETTINGS = Settings.from_env(
    {
        "DELAY_INPUTS": "delay-json=countdown,a-in=native,b-in=native",
        "DELAY_PARTITIONS": "1",
        "DELAY_NAMESPACES": "a-in=team-a,b-in=team-b",
        "DELAY_DESTINATIONS": "a-in:orders,b-in:billing,delay-requests:*",
    }
)
LETTERS = SETTINGS.topics.dead_letters


def letter(offset: int, topic: str = "delay-requests") -> Stored:
    source = f"{topic}-0-{offset}".encode()
    headers = [("delay-reason", b"malformed"), ("delay-error", b"why"), ("delay-source", source)]
    return Stored(offset, 1, None, b"%d" % offset, headers)


class Inputs:
    """Inputs that refuse the letters in `large`, and all of the topics in `closed`."""

    def __init__(self) -> None:
        self.large, self.closed = set[bytes](), set[str]()
        self.taken = defaultdict[str, list[bytes]](list)

    def submit(self, topic: str, partition: int, batch: Batch) -> asyncio.Future[Ack]:
        answer: asyncio.Future[Ack] = asyncio.get_running_loop().create_future()
        error = self._error(
            topic, partition, found := [one.value for one in MemoryRecords(batch.build(1, 0, 0)).next_batch()]
        )
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(Ack(len(self.taken[topic]), 1))
            self.taken[topic] += found
        return answer

    def _error(self, topic: str, _partition: int, found: list[bytes]) -> SendError | None:
        if topic in self.closed:
            return NotAuthorised(topic)
        return TooLarge(topic) if self.large.intersection(found) else None


class Log(JobLog):
    """A topic of jobs that is kept in memory."""

    async def _write(self, key: str, value: object) -> None: ...

    async def read(self) -> bool:
        return True


@pytest.fixture
def inputs() -> Inputs:
    return Inputs()


@pytest.fixture
def letters() -> list[Stored]:
    return []


@pytest.fixture
def part(inputs: Inputs, letters: list[Stored], monkeypatch: pytest.MonkeyPatch) -> Any:
    class Reader:
        def __init__(self, _cluster: object, _topic: str, _number: int, start: int = 0, **_: object) -> None:
            self._next = start

        async def begin(self) -> int:
            return 0

        async def position(self) -> int:
            return self._next

        async def chunk(self, most: int) -> list[Stored]:
            found = [one for one in letters if one.offset >= self._next][:most]
            self._next = found[-1].offset + 1
            return found

    class Watch:
        """The events of a worker that accepts every letter that it reads."""

        @classmethod
        async def begin(cls, *_: object) -> Self:
            return cls()

        async def outcomes(self, sources: Mapping[str, int], _patience_s: float) -> Counter[str]:
            return Counter(accepted=len(sources))

    monkeypatch.setattr(resend_part, "PartitionReader", Reader)
    monkeypatch.setattr(resend_part, "EventWatch", Watch)
    engine: Any = SimpleNamespace(
        settings=SETTINGS,
        cluster=None,
        worker_url="",
        sender=inputs,
        clock=SimpleNamespace(wall_ms=lambda: 1),
        position=lambda *_: None,
        epoch=lambda _: 1,
    )
    search: Any = SimpleNamespace(served=[0])
    log = Log(engine)

    def make(*, within: Namespaces | None = None, bound: bool = False, most: int | None = None) -> ResendPart:
        job = Job(
            job_id="j",
            at_ms=1,
            by="x",
            role="admin",
            act="resend",
            filter=Filter(),
            counted=max(len(letters) if most is None else most, 1),
            ends=[{LETTERS: len(letters)}],
            dead_letters=DeadLetterFilter(within=within),
            bound=bound,
        )
        log.jobs["j"] = job
        return ResendPart(engine, search, log, job, 0)

    return SimpleNamespace(make=make, log=log, so_far=lambda: log.parts["j", 0])


def marked(part: Any, letters: list[Stored]) -> list[int]:
    """Return the offsets of letters that are marked as resent."""
    return [one.offset for one in letters if part.log.sent_again(DeadLetter.of(0, one))]


async def test_a_letter_that_its_input_refuses_is_counted_and_the_others_are_sent_once(
    part: Any, inputs: Inputs, letters: list[Stored]
) -> None:
    letters += [letter(number) for number in range(1_200)]
    inputs.large = {b"3", b"700"}
    await part.make().run()
    so_far: PartProgress = part.so_far()
    assert (so_far.over, so_far.sent, so_far.outcomes) == (True, 1_198, {"accepted": 1_198, "refused": 2})
    assert sorted(map(int, inputs.taken["delay-requests"])) == [n for n in range(1_200) if n not in (3, 700)]
    assert marked(part, letters) == [n for n in range(1_200) if n not in (3, 700)]


async def test_a_job_that_is_stopped_while_letters_are_read_sends_none(
    part: Any, inputs: Inputs, letters: list[Stored], monkeypatch: pytest.MonkeyPatch
) -> None:
    letters += [letter(number) for number in range(3)]
    reader = vars(resend_part)["PartitionReader"]
    read = reader.chunk

    async def chunk(self: object, most: int) -> list[Stored]:
        part.log.jobs["j"] = msgspec.structs.replace(part.log.jobs["j"], stopped=True)
        found: list[Stored] = await read(self, most)
        return found

    monkeypatch.setattr(reader, "chunk", chunk)
    await part.make().run()
    assert (inputs.taken, part.log.parts) == ({}, {})


async def test_a_job_sends_at_most_the_confirmed_number_of_letters_and_reports_that_there_are_more(
    part: Any, inputs: Inputs, letters: list[Stored]
) -> None:
    letters += [letter(number) for number in range(1_200)]
    await part.make(most=700).run()
    so_far: PartProgress = part.so_far()
    assert (so_far.over, so_far.limited, so_far.sent) == (True, True, 700)
    assert sorted(map(int, inputs.taken["delay-requests"])) == list(range(700))


async def test_letters_are_sent_once_after_their_input_was_unavailable(
    part: Any, inputs: Inputs, letters: list[Stored]
) -> None:
    letters += [letter(number, "delay-json" if number in (5, 8) else "delay-requests") for number in range(12)]
    inputs.closed = {"delay-json"}
    for _ in range(3):
        with pytest.raises(NotAuthorised):
            await part.make().run()
    others = [number for number in range(12) if number not in (5, 8)]
    assert list(map(int, inputs.taken["delay-requests"])) == others
    assert (part.so_far().over, part.so_far().sent, marked(part, letters)) == (False, 10, others)

    inputs.closed = set()
    await part.make().run()
    assert list(map(int, inputs.taken["delay-json"])) == [5, 8]
    assert list(map(int, inputs.taken["delay-requests"])) == others
    assert (part.so_far().over, part.so_far().outcomes, marked(part, letters)) == (True, {"accepted": 12}, [*range(12)])


async def test_a_letter_after_a_refused_attempt_is_sent(
    part: Any, inputs: Inputs, letters: list[Stored], monkeypatch: pytest.MonkeyPatch
) -> None:
    letters += [letter(number) for number in range(4)]
    first = iter([Recalled("delay-requests", 0)])
    monkeypatch.setattr(inputs, "_error", lambda *_: next(first, None))
    await part.make().run()
    assert (part.so_far().outcomes, marked(part, letters)) == ({"accepted": 4}, [0, 1, 2, 3])


@pytest.mark.parametrize(("giver", "sent"), [("bound", [b"0"]), ("unbound", [b"0", b"1"])])
async def test_letters_that_the_creator_of_a_job_may_not_resend_are_refused(
    part: Any, inputs: Inputs, letters: list[Stored], giver: str, sent: list[bytes]
) -> None:
    for number, to in enumerate((b"orders", b"billing")):
        asked = [("delay-id", b"team-a/%d" % number), ("delay-to", to), ("delay-at", b"1767225600000")]
        one = letter(number)
        letters.append(one._replace(headers=[*one.headers, *asked]))
    await part.make(within=SETTINGS.topics.namespaces.part(["team-a"]), bound=giver == "bound").run()
    outcomes = {"accepted": 1, "refused": 1} if giver == "bound" else {"accepted": 2}
    assert (part.so_far().over, part.so_far().outcomes, inputs.taken["delay-requests"]) == (True, outcomes, sent)
    assert marked(part, letters) == [int(value) for value in sent]
    assert set(inputs.taken) == {"delay-requests"}


async def test_after_a_maximum_of_refusals_the_part_waits(
    part: Any, inputs: Inputs, letters: list[Stored], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resend_part, "_MOST_REFUSED", 2)
    letters += [letter(number, "a-in") for number in range(4)]
    letters += [one._replace(headers=[*one.headers, ("delay-id", b"team-a/x")]) for one in map(letter, range(4, 7))]
    with pytest.raises(SendError, match="Stop it, and start a job whose filter excludes them"):
        await part.make(within=SETTINGS.topics.namespaces.part(["team-a"]), bound=True).run()
    assert (part.so_far().over, part.so_far().after) == (False, "6")
    assert part.so_far().outcomes == {"accepted": 4, "refused": 2}
    assert list(inputs.taken) == ["a-in"]
