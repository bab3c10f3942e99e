"""`python -m pipeline COMMAND`, or spark-submit with this file: the pipeline's jobs."""

import sys
from importlib.util import find_spec

from pipeline import bare

if find_spec("pyspark") is None:
    sys.exit(bare.main(sys.argv[1:]))

import argparse
import os
from types import ModuleType

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from pipeline.context import Context
from pipeline.errors import PipelineError
from pipeline.jobs import JOBS
from pipeline.kafka import Kafka, sentence
from pipeline.session import session

_INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line says; return the exit code: 0 done, 1 not done, 2 a wrong command line."""
    options = parser(JOBS).parse_args(arguments)
    try:
        with session(f"punctual {options.command}", options.master, options.jars_dir, options.memory) as spark:
            context = Context(spark, Kafka(options.bootstrap), options.app_id)
            return int(JOBS[options.command].run(context, options) or 0)
    except PipelineError as error:
        _say(str(error))
    except (PySparkException, Py4JError) as error:
        _say(f"Spark stopped: {sentence(error)}")
    except KeyboardInterrupt:
        _say("Stopped. What was not committed is done again by the next run.")
        return _INTERRUPTED
    return 1


def parser(jobs: dict[str, ModuleType]) -> argparse.ArgumentParser:
    """Return what reads a command line of these jobs."""
    line = argparse.ArgumentParser(prog="python -m pipeline", description=__doc__)
    commands = line.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, job in jobs.items():
        about = (job.__doc__ or "").splitlines()[0]
        command = commands.add_parser(name, help=about, description=about)
        job.add_options(command)
        _common(command.add_argument_group("where"))
    return line


def _common(group: "argparse._ArgumentGroup") -> None:
    env = os.environ
    app_id = env.get("DELAY_APP_ID", "delay")
    bootstrap = env.get("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:9092")
    group.add_argument("--bootstrap", default=bootstrap, help="Kafka's servers (KAFKA_BOOTSTRAP_SERVERS; %(default)s)")
    group.add_argument("--app-id", default=app_id, help="installation (DELAY_APP_ID; %(default)s)")
    group.add_argument("--master", default="local[*]", help="Spark's master, unless spark-submit says it (%(default)s)")
    group.add_argument("--memory", default="2g", help="heap of the JVM that is started here (%(default)s)")
    group.add_argument("--jars-dir", help="the Kafka connector's jars, where Maven Central cannot be reached")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
