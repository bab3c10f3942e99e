"""Hosts that accept POSTs or fail, by seed; their own random generator leaves other runs as they were."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from app.base.http.answers import TAKEN, HttpOutcome, Meaning, answer_of
from app.engine.steps.outcome_handler import HTTP_GIVE_UP_MS
from tests.simulation.log import Sent

if TYPE_CHECKING:
    from app.base.http.allow_list import Allowed
    from tests.simulation.loop import Loop
    from tests.simulation.worker import Worker

#: The answers, and their weights: the host takes a LOST POST, but its answer does not arrive.
_LOST, _AWAY = "lost", "away"
_MOODS: tuple[dict[object, int], ...] = (
    {200: 1},
    {200: 2, 500: 2},
    {200: 2, 500: 1, 503: 1, 429: 1, _LOST: 1, _AWAY: 1},
    {200: 3, 410: 1, 404: 1},
    {200: 1, _LOST: 3, _AWAY: 2},
    {200: 1, 500: 20},
)
_TIMEOUT_S = 1.0


class Post(NamedTuple):
    """A POST at a host, with its sender, its content and its status; `heard` if the answer came back."""

    sent: Sent
    url: str
    body: bytes
    headers: dict[str, str]
    status: int
    heard: bool

    @property
    def source(self) -> str:
        """The place of its request."""
        return self.headers["delay-source"]

    @property
    def due_ms(self) -> int:
        """The due time in its headers."""
        return int(self.headers["delay-due"])

    @property
    def taken(self) -> bool:
        """Whether the host accepted it, and its sender knows."""
        return self.heard and 200 <= self.status < 300


class Web:
    """All hosts of a run."""

    def __init__(self, seed: int, loop: "Loop") -> None:
        """Make up the hosts of a seed."""
        self._seed, self._loop = seed, loop
        self._rnd = rnd = random.Random(f"{seed}-web")  # noqa: S311 - the same run for the same seed
        #: What share of the messages goes to them.
        self.share = rnd.choice((0.0, 0.0, 0.0, 0.3, 1.0))
        self.env = {
            "DELAY_HTTP_DESTINATIONS": "https://*.example.com",
            "DELAY_CALLBACKS": "https://*.example.com",
        }
        #: When messages are given up: runs are too short for the real three days.
        self.give_up_ms = rnd.choice((HTTP_GIVE_UP_MS, HTTP_GIVE_UP_MS, 2_500))
        self._moods = {f"https://h{number}.example.com": rnd.choice(_MOODS) for number in range(rnd.randint(1, 3))}
        self.posts: list[Post] = []
        self.callbacks: list[Post] = []
        #: Whether the hosts accept everything from now on.
        self.calm = False

    def url(self) -> str | None:
        """Return where a message is to go; None for a topic."""
        if self._rnd.random() >= self.share:
            return None
        return f"{self._rnd.choice(list(self._moods))}/{self._rnd.randrange(5)}"

    def callback(self, rnd: random.Random) -> str:
        """Return the URL of a failure callback."""
        return f"{rnd.choice(list(self._moods))}/failed"

    def client(self, worker: "Worker") -> "Client":
        """Return a worker's HTTP client."""
        return Client(self, worker, random.Random(f"{self._seed}-{worker.name}-web"))  # noqa: S311

    def answer(self, origin: str, rnd: random.Random) -> object:
        """Return a status, or _LOST or _AWAY, by the mood of a host."""
        mood = {200: 1} if self.calm else self._moods[origin]
        return rnd.choices(list(mood), list(mood.values()))[0]


@dataclass(slots=True)
class Client:
    """Replaces app.base.http.client.HttpClient."""

    web: Web
    worker: "Worker"
    rnd: random.Random

    async def post(self, to: "Allowed", body: bytes, headers: Sequence[tuple[str, str]]) -> HttpOutcome:
        """Post to a host."""
        self.worker.check()
        clock, now_s, turns = self.worker.clock, asyncio.get_running_loop().time(), self.web.answer
        sent = Sent(self.worker.name, clock.latest_ms(), clock.shift_ms, now_s)
        await asyncio.sleep(self.rnd.uniform(0.0, 0.02))
        how = turns(to.target.origin, self.rnd)
        if how == _AWAY:
            await asyncio.sleep(self.rnd.choice((0.0, _TIMEOUT_S)))
            return HttpOutcome(Meaning.AGAIN, "no connection", of_host=True)
        status = how if isinstance(how, int) else 200
        post = Post(sent, str(to.target.url), body, dict(headers), status, how != _LOST)
        (self.web.posts if "delay-source" in post.headers else self.web.callbacks).append(post)
        if how == _LOST:
            await asyncio.sleep(_TIMEOUT_S)
            return HttpOutcome(Meaning.AGAIN, "timeout", of_host=True)
        await asyncio.sleep(self.rnd.choice((0.0, 0.01, 0.3)))
        if status == 200:
            return TAKEN
        return answer_of(status, self.rnd.choice((None, "2", "3")), clock.wall_ms())

    async def stop(self) -> None:
        """No connection is open."""
