"""A plain Kafka Streams application: DelayStreams.java, run from its source."""

from contextlib import ExitStack
from pathlib import Path

from app.dev.broker.jars import kafka_version
from app.dev.broker.java import installed_java
from benchmarks.baselines.rival import Rival
from benchmarks.errors import BaselineMissing

_SOURCE = Path(__file__).with_name("DelayStreams.java")
_HEAP = ["-Xms512m", "-Xmx512m"]
_EVERY_MS = "10"


class Streams(Rival):
    """At least once, with a punctuator every 10 ms."""

    guarantee = "at_least_once"
    threads = 1

    def launch(self, directory: Path, stack: ExitStack) -> None:
        """Compile and start it."""
        command = [*self._java(), str(_SOURCE), self.bootstrap, self.app_id, self.requests, self.out, self.guarantee]
        self.start("streams", [*command, str(directory / "state"), _EVERY_MS, str(self.threads)], directory, stack)

    @staticmethod
    def _java() -> list[str]:
        import jgo  # noqa: PLC0415 - slow, and only needed here

        java = installed_java()
        if java is None or not java.resolve().with_name("javac").exists():
            raise BaselineMissing(
                "streams", "a JDK 17 or newer in JAVA_HOME or on PATH, which compiles DelayStreams.java"
            )
        coordinate = f"org.apache.kafka:kafka-streams:{kafka_version()}"
        try:
            jars = [str(jar) for jar in jgo.build(coordinate).all_jars]
        except Exception as error:
            raise BaselineMissing("streams", f"{coordinate} from Maven Central") from error
        return [str(java), *_HEAP, "-cp", ":".join(jars)]

    def requests_taken(self) -> int:
        """Return the changelog's records without those at the destination: deliveries are removed there."""
        return self.ends.total(f"{self.app_id}-delays-changelog") - self.ends.total(self.out)


class TwoThreads(Streams):
    """The same with two threads, each with two of the four partitions."""

    threads = 2


class ExactStreams(Streams):
    """Exactly once, committing every 10 ms."""

    guarantee = "exactly_once_v2"
