"""An upgrade goes worker by worker, and so does the way back, next to workers of the older version.

These run the code of the last commit that wrote the older row version, taken from the repository's history.
"""

import io
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tables.entry import VERSION
from tests.harness.account import Account
from tests.harness.changelog import rows_of
from tests.harness.kafka import Requests, create_topic, now_ms
from tests.harness.waiting import eventually
from tests.harness.worker import ROOT, Worker, await_sharing
from tests.integration.installation import Installation, new_app_id, topics_removed

#: By the newest version of a row that they know: the last commit of such workers, and the packages that they need.
_BEFORE = {
    1: ("d4213233c939214dcae21647e3163ecbf9ec016f", "app", "tables"),
    2: ("e27a58fe607e6c968a544579a0f48530eb3e06a5", "app", "punctual", "tables"),
}


@pytest.fixture(scope="module", params=_BEFORE)
def version(request: pytest.FixtureRequest) -> int:
    """Return the newest version of a row that the workers from before know."""
    number: int = request.param
    return number


@pytest.fixture(scope="module")
def before(version: int, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Return the settings with which a worker runs the code from before."""
    made = subprocess.run(["git", "archive", *_BEFORE[version]], cwd=ROOT, capture_output=True, check=False)  # noqa: S607 - git is a name
    if made.returncode:
        commit = _BEFORE[version][0][:7]
        pytest.skip(f"the history of this copy does not go back to {commit}: {made.stderr.decode().strip()}")
    tree = tmp_path_factory.mktemp("before")
    with tarfile.open(fileobj=io.BytesIO(made.stdout)) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python has it from 3.11.4 on
        archive.extractall(tree)  # noqa: S202 - git made it
    # The current directory follows on the path: Faust would put a directory that is not on the path before all others.
    return {"PYTHONPATH": f"{tree}:{ROOT}", "FAUST_WORKDIR": str(tree), "PYTHONSAFEPATH": "1"}


class Case:
    """Two workers of an installation, and a message that waits in each partition."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self.bootstrap, self.app_id = bootstrap, new_app_id("upgrade")
        self.workers = [Worker(bootstrap, self.app_id, directory / f"w{number}") for number in range(2)]
        self.installation = Installation(bootstrap, self.app_id, self.workers[0], Requests(bootstrap, self.app_id))
        self.to = f"{self.app_id}-to"
        self.ids: list[str] = []

    def start(self, worker: Worker, env: Mapping[str, str]) -> None:
        worker.env = dict(env)
        worker.start().wait_ready()

    def schedule(self, name: str, ahead_ms: int = 3_600_000) -> None:
        ids = [self.installation.new_id(home=number) for number in range(4)]
        for id_ in ids:
            self.installation.requests.schedule(id_, now_ms() + ahead_ms, self.to, name.encode())
        self.installation.requests.flush()
        self.installation.await_event("accepted", *ids)
        self.ids += ids

    def versions(self) -> set[int]:
        """Return the versions of all rows that wait, as the changelog has them."""
        return {raw[0] for raw in rows_of(self.bootstrap, f"{self.app_id}-delays-changelog").values()}

    def await_reports(self, field: str, value: int | None) -> None:
        eventually(
            lambda: [report.get(field) for report in self.installation.progress().values()] == [value] * 4,
            what=f"{field} {value} in all reports",
        )

    def deliver_all(self) -> None:
        for id_ in self.ids:
            self.installation.requests.command("deliver-now", id_)
        self.installation.requests.flush()
        self.installation.wait_for(self.to, len(self.ids))
        self.installation.await_event("delivered", *self.ids)
        Account.settled(self.bootstrap, self.app_id)


@pytest.mark.slow
def test_workers_are_upgraded_one_by_one_and_go_back_one_by_one(
    bootstrap: str, tmp_path: Path, version: int, before: Mapping[str, str]
) -> None:
    reads = version if version > 1 else None  # workers before did not say
    case = Case(bootstrap, tmp_path)
    create_topic(bootstrap, case.to)
    first, second = case.workers
    with topics_removed(bootstrap, case.app_id), first, second:
        case.start(first, before)
        case.start(second, before)
        case.schedule("before")
        case.await_reports("reads", reads)

        second.kill()
        case.start(second, {})
        await_sharing(first, second)
        case.schedule("beside")
        assert case.versions() == {version}

        first.kill()
        case.start(first, {})
        case.await_reports("reads", VERSION)
        eventually(lambda: _is_new(case, version), what="rows of the newest version next to the earlier ones")

        for worker in (first, second):
            worker.kill()
            case.start(worker, {"DELAY_ROW_VERSION": str(version)})
        case.await_reports("rows", version)
        assert case.versions() == {version}
        for worker in (first, second):
            worker.kill()
            case.start(worker, before)
        case.await_reports("reads", reads)
        case.schedule("after")
        case.deliver_all()


def _is_new(case: Case, version: int) -> bool:
    """Schedule once more, and return whether that is written in the new version: reports take a moment to get round.

    Rows of a worker whose partition moves just then are written again by the next worker, in its version.
    """
    case.schedule("new")
    return case.versions() == {version, VERSION}
