"""What can go wrong in the pipeline: each says what is wrong, where, and what to do next."""


class PipelineError(Exception):
    """A job that cannot go on; its text is a sentence for the user."""


class JavaUnsupported(PipelineError):
    """There is no Java that Spark runs on."""


class ConnectorMissing(PipelineError):
    """Spark cannot read Kafka: its connector's jars are not there, or not known for this version."""


class KafkaUnreachable(PipelineError):
    """No broker answers, or it refuses us."""


class TopicMissing(PipelineError):
    """A topic that the job reads or writes is not there."""


class DataLost(PipelineError):
    """Kafka has deleted records that were not read yet."""


class EventsMissing(PipelineError):
    """The installation tells no events, so there is no account."""


class LakeMismatch(PipelineError):
    """The directory holds tables of another installation, of another kind, or of a newer version."""


class LakeBusy(PipelineError):
    """Another run has written to the same tables at the same time."""


class RescueTooLarge(PipelineError):
    """So much seems lost that something else is wrong."""


class SchemaMismatch(PipelineError):
    """The input has no such column, or one of another type."""


class OptionInvalid(PipelineError):
    """An option of the command line, or several together, mean nothing."""


class TooMany(PipelineError):
    """More messages are chosen than the limit allows."""
