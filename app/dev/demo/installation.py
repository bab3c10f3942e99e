"""The parts of the demonstration: a broker or a given cluster, topics, and workers."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from app.dev.broker import Broker
from app.dev.broker.waiting import Say, telling
from app.dev.demo.options import DemoOptions
from app.dev.demo.worker import DemoWorker
from app.settings.kafka import KafkaSettings
from app.settings.settings import Settings
from app.settings.topics import TopicSettings

DEFAULTS = {"DELAY_DESTINATIONS": "*", "DELAY_REPLICATION_FACTOR": "1"}
"""Settings of the worker unless the environment has others."""


@dataclass(frozen=True)
class DemoInstallation:
    """The broker and the workers of the demonstration, running or about to run."""

    settings: Settings
    workers: list[DemoWorker]
    broker: Broker | None
    #: Called with the progress of starts.
    say: Say

    async def wait_ready(self) -> None:
        """Return when all workers, which were started, are ready. Raises WorkerDiedError or WorkerNotReadyError."""
        with telling(self.say, lambda seconds: f"The worker is starting, {seconds:.0f} s so far ..."):
            await asyncio.gather(*[worker.wait_ready() for worker in self.workers])

    def check(self) -> None:
        """Raise a DemoError or BrokerError if a part has exited."""
        for worker in self.workers:
            worker.check()
        if self.broker is not None:
            self.broker.check()


@contextmanager
def installation(options: DemoOptions, say: Say, **settings: str) -> Iterator[DemoInstallation]:
    """Yield a running cluster and workers to start; at the end, stop the workers first, then the broker.

    `say` is called with the progress of slow starts; `settings` are defaults of the workers' environment.
    Without --data everything is removed at the end, except for the workers' logs after an error.
    """
    keep = options.data is not None
    home = (options.data or Path(tempfile.mkdtemp(prefix="punctual-demo-"))).absolute()
    try:
        with ExitStack() as running:
            given = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
            data = home / "kafka" if keep else None
            broker = None if given else running.enter_context(Broker(data, options.kafka_port, say=say))
            defaults = DEFAULTS | settings | ({"KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap} if broker else {})
            env = {name: os.environ.get(name) or value for name, value in defaults.items()}
            ports = range(options.port, options.port + options.workers)
            workers = [DemoWorker(home / f"worker-{port}", port, env, temporary=not keep) for port in ports]
            for worker in workers:
                running.callback(worker.stop)
            yield DemoInstallation(Settings.from_env(os.environ | env), workers, broker, say)
    except Exception:
        keep = True
        raise
    finally:
        if not keep:
            shutil.rmtree(home, ignore_errors=True)


ORDERS = "orders"
REMINDERS = "reminders"
PARTITIONS = 4


async def create_topics(kafka: KafkaSettings, topics: TopicSettings) -> None:
    """Create the topics `orders` and `reminders`, unless they exist."""
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap, **kafka.options())
    await admin.start()
    try:
        missing = sorted({ORDERS, REMINDERS} - set(await admin.list_topics()))
        await admin.create_topics([NewTopic(name, PARTITIONS, topics.replication_factor) for name in missing])
    finally:
        await admin.close()
