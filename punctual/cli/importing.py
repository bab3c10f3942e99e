"""`punctual import`: schedules exported messages again, through Kafka."""

import sys
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import msgspec

from punctual.cli.arguments import add_form
from punctual.cli.errors import CommandError, Incomplete, TooLate, WrongUse
from punctual.cli.exits import Exit
from punctual.cli.exported import Exported
from punctual.cli.kafka import add_kafka, security, told_errors
from punctual.cli.parser import Options, Parser
from punctual.cli.progress import Progress
from punctual.cli.table import Column, Table
from punctual.cli.terminal import say
from punctual.cli.times import now_ms

if TYPE_CHECKING:
    from punctual.client.connection import Connection
    from punctual.client.requests import Request

_STDIN: Final = "-"
#: The size of a batch; the next batch is sent when Kafka has the last one.
_BATCH, _BATCH_BYTES = 1_000, 4 << 20
_KEEP, _NEW = "keep", "new"
_THEN, _NOW = "then", "now"
_OUTCOMES: Final = ("accepted", "outdated", "refused", "unknown")


class ImportCounts(msgspec.Struct):
    """The counts of sent messages, recurring ones and new ids, and of the outcomes.

    `outdated` messages lost to a later command or request; for `unknown` ones no worker has reported an event.
    """

    messages: int = 0
    recurring: int = 0
    new_ids: int = 0
    dry_run: bool = False
    accepted: int = 0
    outdated: int = 0
    refused: int = 0
    unknown: int = 0


def add_arguments(parser: Parser) -> None:
    """Add the arguments for the file and the target."""
    parser.add_argument("file", nargs="?", default=_STDIN, metavar="FILE", help="file of the export (default: stdin)")
    parser.add_argument("--dry-run", action="store_true", help="only read and count the messages")
    about = (
        "automatic IDs: keep them, if this is the exported installation, or make new ones (the same for each import), "
        "if it is another installation (default: new if the names of the installations differ)"
    )
    parser.add_argument("--ids", choices=(_KEEP, _NEW), help=about)
    about = (
        "request time of the messages: then (their original time, so that a later cancel, reschedule or replacement "
        "wins), or now (so that they come back in any case)"
    )
    parser.add_argument("--asked", choices=(_THEN, _NOW), default=_THEN, help=about)
    parser.add_argument("--no-wait", action="store_true", help="send, and do not wait for the outcome")
    about = "native input topic to write to, such as a team's (default: the requests topic)"
    parser.add_argument("--input", metavar="TOPIC", default="", help=about)
    add_form(parser)
    add_kafka(parser)


def run(options: Options) -> Exit:
    """Send the messages, or only count them, and write the counts."""
    counts, progress = ImportCounts(dry_run=options.dry_run), Progress("lines")
    with _opened(options.file) as file:
        requests = _shown(_requests(file, options, counts), progress)
        try:
            if options.dry_run:
                deque(requests, 0)
                outcomes = None
            else:
                outcomes = _send(requests, options)
        finally:
            progress.erase()
    if outcomes is not None:
        for name, number in outcomes.items():
            setattr(counts, name, number)
    names = ("messages", "recurring", "new_ids", *(() if outcomes is None else _OUTCOMES))
    Table([_column(name) for name in names], options.format).add([counts])
    if outcomes is None:
        say("nothing was sent" if options.dry_run else "refused messages become dead letters")
        return Exit.DONE
    return _ended(counts)


def _column(name: str) -> Column:
    return Column(name.replace("_", " ").upper(), lambda counts: f"{getattr(counts, name):,}", number=True)


def _ended(counts: ImportCounts) -> Exit:
    """Return Exit.DONE if all messages were accepted. Raises a CommandError that says what to do about the others."""
    if counts.refused:
        raise CommandError(f"{counts.refused:,} messages were refused: see `punctual dead-letters --written-from 10m`")
    if counts.outdated:
        raise TooLate(
            f"{counts.outdated:,} messages were cancelled, moved or replaced after the export, and stay so: "
            "`punctual import --asked now` brings them back"
        )
    if counts.unknown:
        raise Incomplete(
            f"{counts.unknown:,} messages were sent, but no worker reported their outcome: check that a worker "
            "is running"
        )
    return Exit.DONE


@contextmanager
def _opened(name: str) -> Iterator[IO[bytes]]:
    if name != _STDIN:
        try:
            file = Path(name).open("rb")  # noqa: SIM115 - closed below
        except OSError as error:
            raise WrongUse(f"{name!r} cannot be read: {error.strerror}") from error
        with file:
            yield file
    elif sys.stdin is None or sys.stdin.isatty():
        raise WrongUse("give a file written by `punctual export`, or its content on stdin")
    else:
        yield sys.stdin.buffer


def _requests(file: IO[bytes], options: Options, counts: ImportCounts) -> "Iterator[list[Request]]":
    """Yield the request and the commands for each message of a file, and count them.

    Raises CommandError at the first line that cannot be imported.
    """
    from punctual.cli.import_requests import id_elsewhere, is_automatic, requests_of  # noqa: PLC0415 - help needs no requests
    from punctual.contract.request import Refusal  # noqa: PLC0415 - the same

    asked_ms = now_ms() if options.asked == _NOW else None
    for number, text in enumerate(file, 1):
        if not text.strip():
            continue
        try:
            line = Exported.read(text)
            renamed = is_automatic(line) and _gives_new_ids(options, line)
            requests = requests_of(line, id_elsewhere(line) if renamed else line.id, asked_ms)
        except (Refusal, ValueError) as error:
            why = error.sentence.removesuffix(".") if isinstance(error, Refusal) else str(error)
            raise CommandError(
                f"line {number} is not a message that can be imported: {why}. Fix or remove it, and import the "
                "file again. Messages that were already imported are not duplicated"
            ) from error
        yield requests
        counts.messages += 1
        counts.recurring += line.recurs
        counts.new_ids += renamed


def _gives_new_ids(options: Options, line: Exported) -> bool:
    """Return whether a message with an automatic id gets a new one. Raises WrongUse if --ids is needed to decide."""
    if options.ids is None and line.app_id == options.app_id:
        raise WrongUse(
            f"{line.id} is an automatic id of an installation named {line.app_id}. If this is that installation, give "
            "--ids keep; if it is another one of the same name, which may use the id again, give --ids new"
        )
    return bool(options.ids != _KEEP)


def _batches(requests: "Iterator[list[Request]]") -> "Iterator[list[list[Request]]]":
    batch, size = list["list[Request]"](), 0
    for group in requests:
        batch.append(group)
        size += sum(len(one.value or b"") for one in group)
        if len(batch) >= _BATCH or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _shown(requests: "Iterator[list[Request]]", progress: Progress) -> "Iterator[list[Request]]":
    for number, group in enumerate(requests, 1):
        yield group
        progress.reach(number)


def _send(requests: "Iterator[list[Request]]", options: Options) -> "Counter[str] | None":
    """Send all to the requests topic, or to another input, and return the number of each outcome, None with --no-wait.

    Raises a CommandError.
    """
    import asyncio  # noqa: PLC0415 - not needed for help
    from datetime import timedelta  # noqa: PLC0415 - the same

    from punctual.cli.outcomes import OutcomeFollower  # noqa: PLC0415 - the same
    from punctual.client.connection import Connection  # noqa: PLC0415 - the same

    async def send(connection: "Connection") -> "Counter[str] | None":
        outcomes = None if options.no_wait else OutcomeFollower(options.bootstrap, options.app_id)
        await connection.open(None)
        try:
            if outcomes is not None:
                await outcomes.open()
            for batch in _batches(requests):
                sources = await connection.send_all([request for group in batch for request in group])
                if outcomes is not None:
                    firsts = accumulate(map(len, batch[:-1]), initial=0)  # the rest are commands
                    await outcomes.expect(sources[at] for at in firsts)
            return None if outcomes is None else await outcomes.counts()
        finally:
            await connection.close()
            if outcomes is not None:
                await outcomes.close()

    kafka = {"max_batch_size": 1 << 18, **security()}
    topic = options.input or f"{options.app_id}-requests"
    with told_errors():
        return asyncio.run(send(Connection(options.bootstrap, topic, (), timedelta(seconds=60), kafka)))
