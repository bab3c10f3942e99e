"""Jobs of the pipeline: `python -m pipeline COMMAND`, or spark-submit with this file."""

import sys
from importlib.util import find_spec

from pipeline import without_spark

if find_spec("pyspark") is None:
    sys.exit(without_spark.main(sys.argv[1:]))

import argparse
import logging
import os
from types import ModuleType

from pipeline.context import JobContext
from pipeline.errors import INTERRUPTED, PipelineError, SparkStopped
from pipeline.jobs import JOBS, idle
from pipeline.kafka import Kafka
from pipeline.session import session
from pipeline.summary import Summary, stdout_for_data


def main(arguments: list[str] | None = None) -> int:
    """Run the command of a command line; return its exit code (docs/reference/pipeline.md)."""
    options = parser(JOBS).parse_args(arguments)
    logging.getLogger().addHandler(logging.NullHandler())  # errors are printed below, as one sentence
    summary = Summary(command=options.command, metrics=options.metrics)
    with stdout_for_data(only=options.json):
        code = _run(options, summary)
    if summary.error is None and not getattr(options, "every", None):
        summary.write_metrics()
    if summary.error is not None:
        sys.stderr.write(f"{summary.error}\n")
    if options.json:
        print(summary.line(options.command, code))
    return code


def _run(options: argparse.Namespace, summary: Summary) -> int:
    """Run the command unless a quick check finds it idle; return its exit code and put an error into the summary."""
    job = JOBS[options.command]
    try:
        if idle(job, options):
            summary.nothing, summary.until_ms = True, getattr(options, "until_ms", None)
            return int(options.exit_nothing)
        name = f"punctual {options.command}"
        session_options = (options.master, options.jars_dir, options.memory, options.spark_log)
        with session(name, *session_options, submit=_submitted(options)) as spark:
            code = int(job.run(JobContext(spark, Kafka(options.bootstrap), options.app_id, summary), options) or 0)
        return code or int(options.exit_nothing if summary.nothing else 0)
    except SparkStopped as error:
        summary.error = f"{error} {_again(job, summary)}"
        return error.code
    except PipelineError as error:
        summary.error = str(error)
        return error.code
    except KeyboardInterrupt:
        summary.error = f"Stopped. {_again(job, summary)}"
        return INTERRUPTED


def _submitted(options: argparse.Namespace) -> list[str]:
    """Return the options that are spark-submit's."""
    packages = ["--packages", options.packages] if options.packages else []
    return [*packages, *(part for each in options.conf for part in ("--conf", each))]


def _again(job: ModuleType, summary: Summary) -> str:
    return "Nothing was sent." if summary.sending is False else str(job.AGAIN)


def parser(jobs: dict[str, ModuleType]) -> argparse.ArgumentParser:
    """Return the parser for command lines of these jobs."""
    line = argparse.ArgumentParser(prog="python -m pipeline", description=__doc__)
    commands = line.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, job in jobs.items():
        about = (job.__doc__ or "").splitlines()[0]
        command = commands.add_parser(name, help=about, description=about)
        job.add_options(command)
        _common(command)
    return line


def _common(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("where")
    env = os.environ
    app_id = env.get("DELAY_APP_ID", "delay")
    bootstrap = env.get("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:9092")
    group.add_argument("--bootstrap", default=bootstrap, help="brokers (KAFKA_BOOTSTRAP_SERVERS; default: %(default)s)")
    group.add_argument(
        "--app-id", default=app_id, help="app ID of the installation (DELAY_APP_ID; default: %(default)s)"
    )
    group.add_argument(
        "--master",
        default="local[*]",
        help="Spark's master on this machine, unless spark-submit sets it (default: %(default)s)",
    )
    group.add_argument("--memory", default="2g", help="heap of a JVM that this command starts (default: %(default)s)")
    group.add_argument(
        "--conf", action="append", default=[], metavar="NAME=VALUE", help="configuration of Spark; repeat it for more"
    )
    group.add_argument(
        "--packages",
        metavar="A,B",
        help="packages of Maven that Spark loads, such as a file system's (GROUP:NAME:VERSION)",
    )
    group.add_argument("--jars-dir", help="directory of the Kafka connector's jars, if Maven Central cannot be reached")
    group.add_argument(
        "--spark-log", default="off", choices=("off", "error", "warn"), help="level of Spark's log on stderr"
    )
    group = command.add_argument_group("for programs")
    group.add_argument("--json", action="store_true", help="write one line of JSON to stdout: counts, seconds, offsets")
    group.add_argument(
        "--metrics", metavar="FILE", help="write Prometheus metrics to FILE after each run that does not fail"
    )
    group.add_argument(
        "--exit-nothing", type=int, default=0, metavar="CODE", help="exit code of an empty run (default: %(default)s)"
    )


if __name__ == "__main__":
    sys.exit(main())
