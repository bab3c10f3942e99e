"""One installation under test: its worker's data, its topics, the requests to it and the expected deliveries."""

import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

from punctual.contract.home import home_partition
from tests.harness.account import Account
from tests.harness.deliveries import Deliveries, Expected
from tests.harness.kafka import Requests, create_topic
from tests.harness.waiting import LIMIT_S, ask_until
from tests.harness.worker import Worker

#: So many ids are named where a test fails.
_SHOWN = 10


@dataclass
class Case:
    """An installation of few partitions with few messages in flight, whose bounds on duplicates are small with them."""

    bootstrap: str
    directory: Path
    partitions: int = 2
    max_in_flight: int = 10
    app_id: str = field(default_factory=lambda: f"case-{uuid.uuid4().hex[:10]}")
    expected: Expected = field(default_factory=Expected)

    def __post_init__(self) -> None:
        self.out = create_topic(self.bootstrap, f"{self.app_id}-out", self.partitions)
        self.beside = create_topic(self.bootstrap, f"{self.app_id}-beside", 1)
        self.requests = Requests(self.bootstrap, self.app_id)

    def worker(self, name: str = "worker", **options: Any) -> Worker:
        """Make a worker with a data directory of this name."""
        env = {"DELAY_MAX_IN_FLIGHT": str(self.max_in_flight)}
        env |= options.pop("env", {})
        return Worker(
            self.bootstrap, self.app_id, self.directory / name, partitions=self.partitions, env=env, **options
        )

    def requests_with(self, **options: Any) -> Requests:
        """Make a sender of requests with other options of the client."""
        return Requests(self.bootstrap, self.app_id, **options)

    @property
    def in_flight(self) -> int:
        """How many messages of all partitions can be in flight at a crash: each may come twice."""
        return self.partitions * self.max_in_flight

    def home(self, id_: str) -> int:
        """Return the home partition of an id."""
        return home_partition(id_, {self.requests.topic}, self.partitions)

    def foreign(self, id_: str) -> int:
        """Return a partition that is not the home of an id."""
        return (self.home(id_) + 1) % self.partitions

    def schedule(self, id_: str, due_ms: int, *, partition: int = -1) -> None:
        """Ask for a delivery to the installation's destination, and expect it."""
        self.expected.schedule(self.requests, id_, due_ms, self.out, partition=partition)

    def cancel(self, id_: str, *, partition: int = -1) -> None:
        """Ask for a cancel, and expect that it holds."""
        self.expected.cancel(self.requests, id_, partition=partition)

    def reschedule(self, id_: str, due_ms: int, *, partition: int = -1) -> None:
        """Ask for another due time, and expect it."""
        self.expected.reschedule(self.requests, id_, due_ms, partition=partition)

    def deliveries(self) -> Deliveries:
        """Read the destination."""
        return Deliveries.read(self.bootstrap, self.out)

    def wait_delivered(self, ids: set[str]) -> Deliveries:
        """Wait until all `ids` have been delivered."""
        return ask_until(
            self.deliveries,
            lambda found: ids <= found.ids,
            "the delivery of all",
            lambda found: sorted(ids - found.ids)[:_SHOWN],
        )

    def wait_accepted(self, ids: set[str]) -> Account:
        """Wait until all `ids` have been accepted."""
        return ask_until(
            self.account,
            lambda found: ids <= {*found.ids.values()},
            "the acceptance of all",
            lambda found: sorted(ids - {*found.ids.values()})[:_SHOWN],
        )

    def account(self) -> Account:
        """Read the account as it stands."""
        return Account.read(self.bootstrap, self.app_id)

    def settled(self, *, pending: int | None = None) -> Account:
        """Wait until the account balances, with `pending` messages if given: requests on a detour take their time."""
        return Account.settled(self.bootstrap, self.app_id, pending=pending)

    def remove(self) -> None:
        """Delete the installation's topics."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        topics = [name for name in admin.list_topics(timeout=LIMIT_S).topics if name.startswith(self.app_id)]
        for deleted in admin.delete_topics(topics).values():
            deleted.result(LIMIT_S)
