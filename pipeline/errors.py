"""Errors of the pipeline's commands. A message says the cause, the object and the remedy; `code` is the exit code."""

#: The command is done, but rows were rejected, the account does not balance, or messages are still lost.
LEFT = 3
#: Stopped by the user: 128 and SIGINT, as shells have it.
INTERRUPTED = 130


class PipelineError(Exception):
    """A failure that ends a command; its text is a sentence for the user."""

    code = 1


class JavaUnsupported(PipelineError):
    """No Java of a version that Spark supports was found."""


class ConnectorMissing(PipelineError):
    """The jars of Spark's Kafka connector are missing, or none were tested with this version of Spark."""


class SparkStopped(PipelineError):
    """Spark or its JVM stopped in the middle of a command."""


class InputUnreadable(PipelineError):
    """The input is missing, or is not in the format that `--format` names."""


class OutputUnusable(PipelineError):
    """A file or directory that a command should write cannot be written."""


class LoginUnusable(PipelineError):
    """A setting of Kafka's authentication or encryption (`KAFKA_…`) is invalid."""


class KafkaUnreachable(PipelineError):
    """No broker answers, or the broker refuses the client."""


class TopicMissing(PipelineError):
    """A topic that the job reads or writes does not exist."""


class EventsMissing(PipelineError):
    """The installation has published no events, so there is no account."""


class LakeMismatch(PipelineError):
    """The directory holds a table of another installation, of another kind, or of another program."""


class LakeIncomplete(PipelineError):
    """The log of a table, which lists its valid files, is missing."""


class SchemaMismatch(PipelineError):
    """The input has no such column, or its type is another one."""


class OptionInvalid(PipelineError):
    """An option of the command line is invalid, or several contradict each other."""

    code = 2


class DataLost(PipelineError):
    """Kafka has deleted records that the job had not read."""

    code = 4


class LakeBusy(PipelineError):
    """Another run has written to the same table at the same time."""

    code = 5


class TooMany(PipelineError):
    """More messages are chosen, lost or overdue than the limit allows; nothing was sent."""

    code = 6


class RescueTooLarge(TooMany):
    """More messages seem lost than `--limit` allows, so the ledger is probably wrong."""
