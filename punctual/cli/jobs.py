"""`punctual jobs`: lists, follows and stops jobs, which act on all messages that match a filter."""

from punctual.cli.api import WorkerApi, escaped
from punctual.cli.arguments import add_form, add_worker
from punctual.cli.errors import WrongUse
from punctual.cli.exits import Exit
from punctual.cli.job import follow
from punctual.cli.parser import Options, Parser
from punctual.cli.table import JSON, Column, Table, write_json
from punctual.cli.terminal import say
from punctual.cli.times import written

_COLUMNS = (
    Column("JOB", lambda row: row["job"]["job_id"]),
    Column("BEGUN", lambda row: written(row["job"]["at_ms"])),
    Column("BY", lambda row: row["job"]["by"]),
    Column("ACT", lambda row: row["job"]["act"]),
    Column("STATE", lambda row: row["state"]),
    Column("SENT", lambda row: f"{row['sent']:,}", number=True),
    Column("OF", lambda row: f"{row['job']['counted']:,}", number=True),
)


def add_arguments(parser: Parser) -> None:
    """Add the arguments for a job; without one, all are listed."""
    parser.add_argument("job", nargs="?", metavar="JOB", help="job to follow until it ends; prints its outcomes")
    parser.add_argument("--stop", action="store_true", help="stop the job; changes already made stay")
    add_form(parser)
    add_worker(parser)


def run(options: Options) -> Exit:
    """List, follow or stop jobs."""
    if options.stop and options.job is None:
        raise WrongUse("--stop needs the ID of a job: list them with `punctual jobs`")
    with WorkerApi.of(options) as api:
        if options.job is None:
            return _list(api, options)
        path = f"/jobs/{escaped(options.job)}"
        return _stop(api, path, options) if options.stop else follow(api, api.get(path), options.format)


def _list(api: WorkerApi, options: Options) -> Exit:
    jobs = api.get("/jobs")["jobs"]
    Table(_COLUMNS, options.format).add(jobs)
    if not jobs:
        say("there was no job in the last 30 days")
    return Exit.DONE


def _stop(api: WorkerApi, path: str, options: Options) -> Exit:
    answer = api.post(f"{path}/stop", {})
    standing = answer.body
    if "state" not in standing:
        raise api.failure(answer)
    if options.format == JSON:
        write_json(standing)
    say(f"job {standing['job']['job_id']} is {standing['state']} after {standing['sent']:,} commands")
    return Exit.DONE
