"""Checks the environment of a worker: settings, file descriptors, Python and libraries."""

import re
from collections.abc import Iterable, Iterator, Mapping

from app.ops.doctor.facts import Facts, MachineFacts
from app.ops.doctor.finding import Finding
from app.settings.destinations import DestinationSettings
from app.settings.topics import TopicSettings
from app.settings.unknown import unknown
from app.settings.web import WebSettings

SETTINGS, CHECK = "settings", "process"
#: Connections of the web port; connections to brokers, files of Python and others; files of a partition's database in
#: use (it keeps up to 256 open, tables/rocksdb_options.py, and needs some for each level).
_CONNECTIONS, _REST, _PARTITION = 256, 256, 64
_OLDEST_PYTHON = (3, 11)


def check(
    topics: TopicSettings, destinations: DestinationSettings, web: WebSettings, facts: Facts
) -> Iterator[Finding]:
    """Yield likely mistakes in the environment, and limits of this machine that are too low."""
    findings = [
        Finding("warning", SETTINGS, sentence.partition(" ")[0], sentence)
        for sentence in doubts(destinations, web, facts.env)
    ]
    yield from findings or [Finding("ok", SETTINGS, topics.app_id, "the environment has no unknown settings.")]
    yield _open_files(topics, facts.machine)
    yield from _libraries(facts.machine)


def _open_files(topics: TopicSettings, machine: MachineFacts) -> Finding:
    limit, needed = machine.open_files, _CONNECTIONS + _REST + _PARTITION * topics.partitions
    if 0 <= limit < needed:
        sentence = (
            f"a process may open {limit} files here; a worker with all {topics.partitions} partitions may need "
            f"{needed}. Raise the limit (ulimit -n, LimitNOFILE=)."
        )
        return Finding("warning", CHECK, "open files", sentence)
    shown = "any number of" if limit < 0 else str(limit)
    return Finding("ok", CHECK, "open files", f"a process may open {shown} files here.")


def _libraries(machine: MachineFacts) -> Iterator[Finding]:
    wrong = [
        f"{name} {release} (needed: {wanted})"
        for name, (release, wanted) in machine.libraries.items()
        if not fits(release, wanted)
    ]
    shown = ", ".join(f"{name} {release}" for name, (release, _) in machine.libraries.items())
    if wrong:
        sentence = (
            f"a worker here would run with {', '.join(wrong)}. Install punctual-kafka-worker in a new environment."
        )
        yield Finding("error", CHECK, "libraries", sentence)
    else:
        yield Finding("ok", CHECK, "libraries", f"Python {machine.python}{', ' if shown else ''}{shown}.")


def fits(release: str, wanted: str) -> bool:
    """Return whether a release is within bounds such as `<0.16,>=0.15.3`; other operators are ignored."""
    here = _numbers(release)
    for bound in filter(None, wanted.replace(" ", "").split(",")):
        if bound.startswith(">=") and here < _numbers(bound):
            return False
        if bound.startswith("<") and here >= _numbers(bound):
            return False
    return True


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", release)[:4])


def doubts(destinations: DestinationSettings, web: WebSettings, env: Mapping[str, str]) -> Iterable[str]:
    """Yield a sentence for each likely mistake, with what to do."""
    yield from unknown(env)
    if web.signs_in and not web.secret:
        yield (
            "sign-in is on, but DELAY_WEB_SECRET is not set. Without it, the workers of an installation cannot "
            "query each other, and sessions end when a worker restarts. Set the same 32 random characters on all "
            "workers."
        )
    if destinations.allowed_urls and not destinations.http_secrets_file:
        yield (
            "DELAY_HTTP_DESTINATIONS is set, but DELAY_HTTP_SECRETS_FILE is not. Without signatures, receivers "
            "cannot verify the sender of HTTP deliveries. See docs/how-to/deliver-over-http.md."
        )
    if not (destinations.allowed_topics or destinations.allowed_urls):
        yield (
            "DELAY_DESTINATIONS is not set, so every request becomes a dead letter. Set it to the allowed "
            "destination topics, such as 'orders.*,reminders', or to '*' for all topics except internal ones."
        )
