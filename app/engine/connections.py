"""The connections of a worker: to its own cluster, and to the clusters that it delivers to."""

from typing import TYPE_CHECKING

from app.base.patience import patiently
from app.base.process.datadir import belongs
from app.base.process.library_logs import silent
from app.engine.deliver.destination_cluster import DestinationCluster, connect
from app.engine.topics import layout
from app.engine.topics.creation import ensure
from app.engine.topics.internal_topics import TopicLimits
from app.engine.traces import traces_of
from app.kafka import Cluster, Sender
from app.settings.settings import Settings

if TYPE_CHECKING:
    from app.engine.traces.traces import Traces


class Connections:
    """The clusters and producers of one worker; `open` fills the attributes."""

    own_id: str
    cluster: Cluster
    sender: Sender
    traces: "Traces | None" = None

    def __init__(self, settings: Settings) -> None:
        """Take the clusters and options from `settings`; `open` connects."""
        self._settings = settings
        self.limits = TopicLimits()
        #: Destination clusters by name; None is the worker's own cluster.
        self.targets: dict[str | None, DestinationCluster] = {}

    async def open(self) -> None:
        """Create and check the topics, check that the data directory is of this installation, connect to all clusters.

        Raises PunctualError with a sentence if the worker cannot start.
        """
        settings = self._settings
        self.traces = traces_of(settings)
        with silent("aiokafka"):
            self.limits = await ensure(settings, layout.assure)
        self.cluster = Cluster(settings.kafka.bootstrap, **settings.kafka.options())
        own = self.targets[None] = DestinationCluster(self.cluster, Sender(self.cluster, recalls=True))
        await self.cluster.start(settings.topics.progress)
        self.own_id = await self.cluster.id()
        belongs(settings.data_path, settings.topics.app_id, self.own_id, settings.topics.changelog)
        self.sender = Sender(self.cluster)
        for name, bootstrap in settings.kafka.clusters.items():
            self.targets[name] = await connect(name, bootstrap, settings.kafka)
        for sender in (self.sender, own.sender):
            await patiently(sender.start, "producer ids")

    @property
    def senders(self) -> list[Sender]:
        """All producers: of the targets, and of the worker's own topics."""
        return [*(target.sender for target in self.targets.values()), self.sender]

    async def stop_sending(self) -> None:
        """Send all queued records, and stop the producers."""
        for sender in self.senders:
            await sender.stop()
        if self.traces is not None:
            await self.traces.close()

    async def close(self) -> None:
        """Close the connections."""
        for target in self.targets.values():
            await target.cluster.stop()
