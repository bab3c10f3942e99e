"""Fixtures of the whole suite: one real Kafka broker, and topics on it."""

import gc
import os
import shutil
import signal
import tempfile
import uuid
from collections.abc import Callable, Generator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from tests.check import NEEDS, SLOW
from tests.harness import class_archives, pace, ports
from tests.harness.shared_broker import shared_broker
from tests.harness.waiting import LIMIT_S

if TYPE_CHECKING:
    from tests.harness.guarded import Guarded

#: Tests that start Spark take longest, and two cores: one process of the suite runs all Spark tests.
_SPARK = "tests/pipeline/"
#: Next to it run first tests that mostly wait, then tests that measure time, then tests that keep cores busy.
_ORDER = (
    _SPARK,
    "tests/chaos/",
    "tests/docs/test_documents_run.py",
    "tests/benchmarks/test_run.py",
    "tests/integration/faults/",
    "tests/integration/test_last_command.py",
    "tests/integration/test_queue.py",
    "tests/app/dev/broker/",
    "tests/matrix/",
    "tests/integration/",
    "tests/simulation/",
    "tests/kernel/",
)
#: A failure shows at most this many logs, and this many lines of each.
_SHOWN_LOGS, _SHOWN_LINES = 4, 40
#: A file system in memory; it must have room for the databases of all processes of the suite.
_MEMORY, _ROOM = Path("/dev/shm"), 2 << 30  # noqa: S108 - mkdtemp names its contents
#: Tests of security have one broker, which takes seconds to start.
_GUARDED = "tests/integration/test_security"
collect_ignore = [path.removeprefix("tests/") for path, module in NEEDS.items() if find_spec(module) is None]
# Hypothesis has limits of time of its own: 200 ms for an example, and as little for making one.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
settings.register_profile("check", max_examples=10)


def pytest_configure() -> None:
    """Let processes that tests start be interrupted and quit, which a shell's background jobs are not.

    They keep their bytecode, as where Punctual is installed: a worker's start would take half as long again without.
    """
    pace.watch()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ.setdefault("JAVA_TOOL_OPTIONS", class_archives.java_options(class_archives.KAFKA))
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector away from the items and modules of a collection: they never become garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark slow tests and tests that need the broker by their place; sort them by `_ORDER`."""
    for item in items:
        if {"bootstrap", "guarded"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.kafka)
        if item.nodeid.startswith(tuple(NEEDS)) and not any(map(item.get_closest_marker, ("slow", "kafka"))):
            item.add_marker(pytest.mark.core)
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: next((at for at, of in enumerate(_ORDER) if item.nodeid.startswith(of)), len(_ORDER)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a failure where the logs of its workers, gateways and programs are, and how they end."""
    report = yield
    factory: pytest.TempPathFactory | None = item.config.__dict__.get("_tmp_path_factory")
    if report.failed and factory is not None:
        for log in logs_since(call.start, factory.getbasetemp()):
            lines = log.read_text("utf-8", errors="replace").splitlines()
            report.sections.append((f"the end of {log}", "\n".join(lines[-_SHOWN_LINES:])))
    return report


def logs_since(start_s: float, folder: Path) -> list[Path]:
    """Return the last logs in a folder that something was written to since `start_s`, a Unix time.

    RocksDB and Kafka call files of data `000004.log`: these are no logs.
    """
    logs = (log for log in folder.rglob("*.log") if not log.stem.isdigit() and log.is_file())
    written = {log: log.stat().st_mtime for log in logs}
    return sorted((log for log, at_s in written.items() if at_s >= start_s), key=written.__getitem__)[-_SHOWN_LOGS:]


class ByFile(LoadScopeScheduling):
    """Hands the tests of a file to one process, all that start Spark, and all that share a guarded cluster."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(_GUARDED):
            return "guarded"
        return "spark" if nodeid.startswith(_SPARK) else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByFile:
    """Return how pytest-xdist shares the tests among its processes."""
    return ByFile(config, log)


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A directory of the test: of a fast test in memory, since opening a database takes ten times as long on a disk."""
    slow = any(map(request.node.get_closest_marker, ("slow", "kafka")))
    if slow or not _MEMORY.is_dir() or shutil.disk_usage(_MEMORY).free < _ROOM:
        yield request.getfixturevalue("tmp_path")
        return
    with tempfile.TemporaryDirectory(prefix="punctual-", dir=_MEMORY, ignore_cleanup_errors=True) as directory:
        yield Path(directory)


@pytest.fixture(scope="module", autouse=True)
def ports_of_the_file() -> Iterator[None]:
    """Give the ports of a file back when all else of the file is over."""
    yield
    ports.give_back()


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Bootstrap servers of one real broker for all processes of a run (or KAFKA_BOOTSTRAP_SERVERS, if that is set)."""
    own = tmp_path_factory.getbasetemp()
    with shared_broker(own.parent if hasattr(request.config, "workerinput") else own) as servers:
        yield servers


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> AdminClient:
    """An admin client of the session's broker."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


@pytest.fixture
def new_topic(admin: AdminClient) -> Callable[..., str]:
    """Create a topic: `new_topic(partitions=1, prefix="test", **{"cleanup.policy": "compact"})` returns its name."""

    def create(partitions: int = 1, prefix: str = "test", **config: str) -> str:
        name = f"{prefix}-{uuid.uuid4().hex[:12]}"
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config)
        admin.create_topics([topic])[name].result(timeout=LIMIT_S)
        return name

    return create


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Guarded]":
    """A cluster that requires users, with ACLs, shared by all tests of security."""
    from tests.harness.guarded import guarded_cluster  # noqa: PLC0415 - most tests do not need it

    with guarded_cluster(tmp_path_factory.mktemp("guarded")) as made:
        yield made
