"""The how-to about pauses and rate limits works: its commands and programs are run on an installation."""

import json
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from app.settings.settings import Settings
from tests.harness.kafka import create_topic, now_ms, read
from tests.harness.waiting import LIMIT_S, PROGRAM_S, eventually
from tests.harness.worker import ROOT
from tests.integration.installation import PARTITIONS, Installation, running

PAGE = ROOT / "docs/how-to/pause-and-rate.md"
BLOCKS = re.findall(r"```(sh|python)\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
SETTINGS = [line for _, code in BLOCKS for line in code.splitlines() if line.startswith("export ")]

pytestmark = pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed (a Debian package)")


@pytest.fixture(scope="module")
def installation(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with running(bootstrap, tmp_path_factory.mktemp("how-to"), "how-to", balanced=False) as made:
        create_topic(bootstrap, f"{made.app_id}-to-orders")
        yield made


def test_the_settings_are_such(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(SETTINGS) == 2
    for line in SETTINGS:
        name, _, value = line.removeprefix("export ").partition("=")
        monkeypatch.setenv(name, value.strip('"'))
    settings = Settings.from_env()

    assert settings.destinations.rates["sms"].burst == 100
    assert settings.destinations.catch_up_rate is not None


class Doing:
    """Runs the blocks of the page one after the other."""

    def __init__(self, installation: Installation) -> None:
        self._installation, self.to = installation, f"{installation.app_id}-to-orders"
        self._left = [(kind, code) for kind, code in BLOCKS if not code.startswith("export ")]

    def next(self, part: str) -> str:
        """Run the next block, which must contain `part`, and return its output."""
        kind, code = self._left.pop(0)
        assert part in code
        made = self._installation
        for there, here in (
            ("127.0.0.1:9092", made.bootstrap),
            ("http://127.0.0.1:6066", made.worker.url),
            ("delay-controls", f"{made.app_id}-controls"),
            ("orders", self.to),
            ('Client("' + made.bootstrap + '"', f'Client("{made.bootstrap}", app_id="{made.app_id}"'),
        ):
            code = code.replace(there, here)
        command = ["bash", "-ec", code] if kind == "sh" else [sys.executable, "-c", code]
        return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=PROGRAM_S).stdout

    @property
    def over(self) -> bool:
        return not self._left

    def send(self, count: int) -> None:
        for number in range(count):
            self._installation.requests.send({"delay-to": self.to, "delay-after": "0"}, b"%d" % number, b"")
        self._installation.requests.flush()

    def came(self) -> int:
        return len(list(read(self._installation.bootstrap, self.to)))

    def listed(self) -> bool:
        """Whether the worker knows from reports that the paused destination has pending messages."""
        url = f"{self._installation.worker.url}/api/v1/destinations"
        with urllib.request.urlopen(url, timeout=LIMIT_S) as answer:  # noqa: S310 - our own worker
            return any(
                row["destination"] == self.to and (row["paused"] or {}).get("since_ms")
                for row in json.load(answer)["destinations"]
            )

    def shown(self) -> dict[str, Any]:
        rows = json.loads(self.next("curl"))["destinations"]
        return next(row for row in rows if row["destination"] == self.to)


def test_a_destination_is_paused_resumed_and_capped(installation: Installation) -> None:
    doing = Doing(installation)
    doing.next("kcat")
    doing.next("client.pause")
    worker = installation.worker
    eventually(lambda: worker.metric("delay_destination_paused", destination=doing.to) == 1, what="the pause")
    doing.send(10)
    eventually(doing.listed, what="the destination in a report")
    paused = doing.shown()["paused"]
    assert (paused["reason"], paused["by"]) == ("the shop is closed", "ann@example.com")
    assert paused["until_ms"] > now_ms()
    assert paused["since_ms"]
    assert doing.came() == 0

    doing.next("-Z")
    eventually(lambda: doing.came() == 10, what="what has waited")
    doing.next("client.limit")
    eventually(lambda: worker.metric("delay_destination_rate_per_second", destination=doing.to) == 2, what="the limit")
    doing.send(20)
    eventually(lambda: doing.came() >= 20, what="half of the delayed messages")
    stamps = [record.timestamp_ms for record in read(installation.bootstrap, doing.to)][10:]
    # Each of the partitions sends its first one at once.
    assert len(stamps) <= PARTITIONS + 1 + 2 * (max(stamps) - min(stamps)) / 1_000
    assert doing.over
