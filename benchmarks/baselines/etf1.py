"""kafka-message-scheduler of etf1, in Go: timers in memory above a topic of schedules, due on whole seconds."""

import re
import shutil
import urllib.request
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from app.dev.broker.ports import HOST, free_port
from benchmarks import topics
from benchmarks.baselines import etf1_build
from benchmarks.baselines.rival import PARTITIONS, Rival
from benchmarks.clock import wait_for

_START_S = 30.0
#: The defaults drop the part of a burst that exceeds a queue of 100,000, and put the record that ends a schedule
#: into another partition than the load generator puts the schedule.
_CONFIGURATION = """\
kafka.producer.configuration:
  queue.buffering.max.messages: 2000000
  queue.buffering.max.kbytes: 1048576
  partitioner: murmur2_random
"""
#: The scheduler refuses messages that are due when it reads them, without a grace interval.
_GRACE_S = 3_600
_PLANNED = re.compile(r'^kafka_scheduler_event_total\{type="kafka_scheduler_planned_schedule"\} (\S+)$', re.MULTILINE)
#: The scheduler holds all messages that are due until midnight: its clock shows this hour, far from midnight.
_HOUR = 6


class Etf1(Rival):
    """One process. Its metrics count pending messages, and the schedules that it has ended count deliveries."""

    wording = "etf1"
    #: Messages that it reads a second after they were written wait until none has come for a second.
    quiet_ms = 3_000
    #: Each poll reads its metrics, at some cost for the scheduler.
    poll_s = 0.1

    def __init__(self, bootstrap: str, name: str) -> None:
        super().__init__(bootstrap, name)
        self._before = _Before()
        self._metrics = f"{HOST}:{free_port()}"

    def launch(self, directory: Path, stack: ExitStack) -> None:
        """Build it if need be, and start it."""
        program, history = etf1_build.scheduler(), f"{self.app_id}-history"
        topics.create(self.bootstrap, history, PARTITIONS, 1)
        configuration = directory / "configuration.yaml"
        configuration.write_text(_CONFIGURATION, "utf-8")
        settings = {
            "BOOTSTRAP_SERVERS": self.bootstrap,
            "GROUP_ID": self.app_id,
            "SCHEDULES_TOPICS": self.requests,
            "HISTORY_TOPIC": history,
            "SCHEDULE_GRACE_INTERVAL": str(_GRACE_S),
            "CONFIGURATION_FILE": str(configuration),
            "METRICS_ADDR": self._metrics,
            "SERVER_ADDR": f"{HOST}:{free_port()}",
            "LOG_LEVEL": "warning",
            "TZ": _zone(datetime.now(UTC).hour),
        }
        pairs = (f"{name}={value}" for name, value in settings.items())
        self.start("etf1", [shutil.which("env") or "env", *pairs, str(program)], directory, stack)
        wait_for(self._answers, _START_S, "The start of etf1's scheduler")

    def requests_taken(self) -> int:
        """Return the number of timers made since `_before`, plus all messages sent before."""
        return self._before.sent + self._planned() - self._before.planned

    def wait_settled(self) -> None:
        """Return when all that is not far ahead is delivered and ended, and the rest has timers."""
        over = self.sent - self.far
        planned = self._before.planned + self.far - self._before.far
        self.wait_until((self.delivered, over), (self._ended, over), (self._planned, planned))
        self._before = _Before(self.sent, self.far, self._planned())

    def _ended(self) -> int:
        """Count the records that end schedules: it writes one into their topic once Kafka has the delivery."""
        return self.ends.total(self.requests) - self.sent

    def _planned(self) -> int:
        match = _PLANNED.search(self._exposition())
        return int(float(match[1])) if match else 0

    def _exposition(self) -> str:
        with urllib.request.urlopen(f"http://{self._metrics}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    def _answers(self) -> bool:
        self.check()
        try:
            self._exposition()
        except OSError:
            return False
        return True


class _Before(NamedTuple):
    """Counts when the last messages were settled: sent messages, those far ahead, and timers made."""

    sent: int = 0
    far: int = 0
    planned: int = 0


def _zone(hour: int) -> str:
    """Return the time zone in which it is `_HOUR` when it is `hour` at Greenwich; signs are the other way round."""
    east = (_HOUR - hour + 11) % 24 - 11
    return f"Etc/GMT{-east:+d}"
