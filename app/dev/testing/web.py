"""Hosts in memory: they answer what the test's `respond` says."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from app.base.clock import Clock
from app.base.http.allow_list import Allowed
from app.base.http.answers import HttpOutcome, answer_of
from app.dev.testing.records import Post, time_of


class Web:
    """Stands where the worker has its HTTP client."""

    def __init__(self, clock: Clock, respond: Callable[[Post], int], failed: Callable[[BaseException], None]) -> None:
        """Answer with the status that `respond` returns; `failed` hears what it raises, an assertion perhaps."""
        self._clock, self._respond, self._failed = clock, respond, failed
        self.posts: list[Post] = []

    async def post(self, to: Allowed, body: bytes, headers: Sequence[tuple[str, str]]) -> HttpOutcome:
        """Take a post, and return what the answer means."""
        now_ms = self._clock.wall_ms()
        post = Post(str(to.target.url), body, tuple(headers), time_of(now_ms))
        try:
            post = replace(post, status=self._respond(post))
        except Exception as error:
            self._failed(error)
            raise
        self.posts.append(post)
        return answer_of(post.status, None, now_ms)

    async def stop(self) -> None:
        """Have no connections to close."""
