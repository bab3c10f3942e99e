"""What a test suite can choose: the fixture `delayed_options` returns it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from app.dev.testing.records import Post


def taken(_: Post) -> int:
    """Answer a post as a receiver that takes everything."""
    return 200


@dataclass(frozen=True, kw_only=True)
class Options:
    """How the simulated installation is.

    `settings`: the worker's environment variables (docs/reference/settings.md); every topic is an allowed destination,
    and there is one partition, if they do not say otherwise.
    `topics`: destination topics and how many partitions each has; without it every topic is there, with one.
    `start`: what the clock shows at first; the present if it is not given.
    `respond`: the HTTP status that a post is answered with.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    topics: Mapping[str, int] | None = None
    start: datetime | None = None
    respond: Callable[[Post], int] = taken
