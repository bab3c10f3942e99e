"""What can go wrong in the pipeline: each says what is wrong, where, and what to do next; `code` is the exit code."""

#: All done, as far as it goes: rows were left out, the account does not balance, something is still lost.
LEFT = 3
#: Stopped by the user: 128 and SIGINT, as shells have it.
INTERRUPTED = 130


class PipelineError(Exception):
    """A job that cannot go on; its text is a sentence for the user."""

    code = 1


class JavaUnsupported(PipelineError):
    """There is no Java that Spark runs on."""


class ConnectorMissing(PipelineError):
    """Spark cannot read Kafka: its connector's jars are not there, or not known for this version."""


class SparkStopped(PipelineError):
    """Spark, or the Java that it runs on, has given up in the middle of a command."""


class InputUnreadable(PipelineError):
    """The input is not there, or not of the kind that it is said to be."""


class LoginUnusable(PipelineError):
    """A setting of how Kafka is shown who asks makes no sense."""


class KafkaUnreachable(PipelineError):
    """No broker answers, or it refuses us."""


class TopicMissing(PipelineError):
    """A topic that the job reads or writes is not there."""


class EventsMissing(PipelineError):
    """The installation tells no events, so there is no account."""


class LakeMismatch(PipelineError):
    """The directory holds tables of another installation, of another kind, or of a newer version."""


class LakeIncomplete(PipelineError):
    """Some of the tables is not there: what was written is not listed yet, or what says which files count is gone."""


class SchemaMismatch(PipelineError):
    """The input has no such column, or one of another type."""


class OptionInvalid(PipelineError):
    """An option of the command line, or several together, mean nothing."""

    code = 2


class DataLost(PipelineError):
    """Kafka has deleted records that were not read yet."""

    code = 4


class LakeBusy(PipelineError):
    """Another run has written to the same tables at the same time."""

    code = 5


class TooMany(PipelineError):
    """More messages are chosen, lost or overdue than the limit allows; nothing was sent."""

    code = 6


class RescueTooLarge(TooMany):
    """So much seems lost that something else is wrong."""
