"""Runs an action on all messages that match a filter: counts, confirms, and follows the job until it has ended."""

import sys
import time
from collections.abc import Mapping
from typing import Any, Final

from punctual.cli.api import WorkerApi, missing
from punctual.cli.errors import CommandError, Incomplete, WrongUse
from punctual.cli.exits import Exit
from punctual.cli.parser import Options
from punctual.cli.progress import Progress
from punctual.cli.table import JSON, Column, Table, write_json
from punctual.cli.terminal import can_ask, say, write

_COUNT_S: Final = 30
_SOON_S, _LATER_S = 0.05, 0.5
#: A worker that restarts while its job is followed is available again within this time.
_PATIENCE_S: Final = 60.0
_ACCEPTED: Final = 202


def give_job(api: WorkerApi, options: Options, action: str, wanted: Mapping[str, str], body: Mapping[str, Any]) -> Exit:
    """Start a job for an action on all messages that match `wanted`. Raises a CommandError."""
    if options.at_most is not None and not options.dry_run:
        return _begin(api, options, {**body, "act": action, "filter": dict(wanted), "confirm": options.at_most})
    counted = _count(api, wanted)
    count = counted["matching"]
    if options.dry_run:
        if options.format == JSON:
            write_json(counted)
        else:
            write(f"{count:,} pending messages match")
        return Exit.DONE
    if not count:
        say("no pending messages match")
        return Exit.DONE
    if not options.yes:
        _confirm(action, count)
        api.close()  # the user may take longer than the worker keeps a connection
    return _begin(api, options, {**body, "act": action, "filter": dict(wanted), "confirm": count})


def at_most(text: str) -> int:
    """Parse the number of an option. Raises ValueError if it is not above zero."""
    number = int(text.replace(",", ""))
    if number < 1:
        raise ValueError(text)
    return number


def _begin(api: WorkerApi, options: Options, job: Mapping[str, Any]) -> Exit:
    """Begin a job, and follow it unless options say --no-wait. Raises a CommandError."""
    answer = api.post("/jobs", job)
    if answer.status != _ACCEPTED:
        raise api.failure(answer)
    if options.no_wait:
        return _begun(answer.body, options.format)
    return follow(api, answer.body, options.format)


def follow(api: WorkerApi, standing: dict[str, Any], form: str) -> Exit:
    """Wait until a job has ended, showing its progress, and write the outcomes. Raises a CommandError."""
    job, pause_s = standing["job"], _SOON_S
    try:
        with Progress("messages", job["counted"], standing["sent"]) as progress:
            while standing["state"] == "running":
                progress.reach(standing["sent"])
                time.sleep(pause_s)
                pause_s = min(pause_s * 2, _LATER_S)
                standing = api.get(f"/jobs/{job['job_id']}", patience_s=_PATIENCE_S)
    except (KeyboardInterrupt, CommandError):
        say(f"the workers continue job {job['job_id']}: `punctual jobs {job['job_id']}` follows it, --stop stops it")
        raise
    return ended(standing, form)


def ended(standing: dict[str, Any], form: str) -> Exit:
    """Write the outcomes of a job; return Exit.DONE, or raise the CommandError for its end."""
    if form == JSON:
        write_json(standing)
    else:
        columns = Column("OUTCOME", lambda row: row[0]), Column("COUNT", lambda row: f"{row[1]:,}", number=True)
        Table(columns).add(sorted(standing["outcomes"].items(), key=lambda row: -row[1]))
    name, state = standing["job"]["job_id"], standing["state"]
    say(f"job {name} is {state}: {standing['sent']:,} commands for at most {standing['job']['counted']:,} messages")
    if state == "stopped":
        raise CommandError("the job was stopped. Changes already made stay; start another job for the rest")
    if state == "limited":
        raise Incomplete("more messages match than you confirmed: count the rest again, and start another job")
    if standing["untold"]:
        raise Incomplete(
            f"the outcome of {standing['untold']:,} commands was not reported: count the matching messages again"
        )
    if standing["outcomes"].get("refused"):
        raise CommandError("some commands were refused: see `punctual dead-letters`")
    return Exit.DONE


def _count(api: WorkerApi, wanted: Mapping[str, str]) -> dict[str, Any]:
    counted = api.get("/messages/count", {**wanted, "seconds": _COUNT_S})
    lacks = missing(counted)
    if lacks is not None:
        raise lacks
    if not counted["complete"]:
        more = f"there are more than {counted['matching']:,}, too many to count within {_COUNT_S} s"
        raise CommandError(f"{more}: narrow the filter, or give --at-most N instead of a count; nothing was changed")
    return counted


def _confirm(action: str, count: int) -> None:
    """Ask the user to type the number. Raises CommandError if the input is different."""
    if not can_ask():
        raise WrongUse(f"{count:,} messages match, and there is no terminal to ask for confirmation: give --yes")
    sys.stderr.write(f"{count:,} messages match. Type {count} to {action.replace('-', ' ')} them all: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().replace(",", "") != str(count):
        raise CommandError("the number does not match; nothing was changed")


def _begun(standing: dict[str, Any], form: str) -> Exit:
    name = standing["job"]["job_id"]
    if form == JSON:
        write_json(standing)
    else:
        write(name)
    say(f"`punctual jobs {name}` follows it, --stop stops it")
    return Exit.DONE
