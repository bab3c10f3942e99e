"""Checks that brokers still answer for partitions' inputs: without answers, the cancel of a due message may be missed.

After an outage of a broker or the network, or a pause of the process, messages are overdue and commands for them are
unread. So the partition reads its inputs before it delivers, as after a start.
"""

from collections.abc import Iterable, Mapping

from app.engine.due.input_lag import NO_NAMESPACES, InputLag, InputReads
from app.engine.partition.partition import Partition, State
from punctual.contract.namespaces import Namespaces

#: Maximum seconds without an answer. The guarantee covers commands that come this long before the due time. Brokers
#: answer for an idle input every 100 ms, and it is read every 250 ms.
BLIND_S = 3.0
_LOOK_S = 0.1


class InputLiveness:
    """Checks several times a second whether live partitions still get answers for their inputs."""

    def __init__(
        self, hearing: InputReads, margins: Mapping[str, float], namespaces: Namespaces = NO_NAMESPACES
    ) -> None:
        """Check the topics of `margins` (seconds by topic, for InputLag); some are inputs of `namespaces`.

        `hearing` has the answers. A live partition without an answer for BLIND_S reads its inputs again.
        """
        self._hearing, self._topics = hearing, tuple(margins)
        self._lag = InputLag(hearing, margins, namespaces)
        self._looked_s = 0.0
        #: By partition: its life, and by input the last sign of life and its time.
        self._heard: dict[int, tuple[int, dict[str, tuple[float | None, float]]]] = {}

    def look(self, partitions: Iterable[Partition], now_s: float) -> None:
        """Check the partitions at `now_s`, a time of the event loop; must be called before rows are fired.

        Partitions are checked every `_LOOK_S`, and once more when they go live.
        """
        since_s = now_s - self._looked_s
        if every := since_s >= _LOOK_S:
            self._looked_s = now_s
        for partition in partitions:
            if partition.state is not State.LIVE:
                self._lag.forget(partition)
            elif not every and self._lag.knows(partition):
                continue
            elif self._blind(partition, now_s) or since_s > BLIND_S:
                self._heard.pop(partition.number, None)
                self._lag.forget(partition)
                partition.lose_inputs()
            else:
                self._lag.look(partition, now_s, since_s)

    def behind_s(self, partition: Partition) -> float:
        """Return how many seconds a partition has to hold back due messages because of unread input."""
        return self._lag.behind_s(partition)

    def apart_s(self, partition: Partition) -> Mapping[str, float]:
        """Return how many seconds it has to hold messages back by namespace, where more than behind_s()."""
        return self._lag.apart_s(partition)

    def _blind(self, partition: Partition, now_s: float) -> bool:
        blind, life = False, partition.life
        of_life, heard = self._heard.get(partition.number, (life, {}))
        if of_life != life:
            heard = {}
        self._heard[partition.number] = life, heard
        for topic in self._topics:
            at = self._hearing.heard(topic, partition.number)
            # The consumer does not fetch while its records wait for the table. Then each step is a sign of life.
            mark = partition.writer.steps_read if self._hearing.ahead(topic, partition.number) else at
            last, last_s = heard.get(topic, (None, 0.0))
            if at is None or mark != last:
                heard[topic] = mark, now_s
            elif now_s - last_s > BLIND_S:
                blind = True
        return blind
