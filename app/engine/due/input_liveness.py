"""Whether partitions are still told what their inputs hold: one that is not may miss the cancel of a due message.

A broker that is away, a network that carries nothing and a process that was stopped look alike when they are over:
messages are overdue, and commands for them wait unread. What waits is read first, as after a start.
"""

from collections.abc import Iterable, Mapping

from app.engine.due.input_lag import NO_NAMESPACES, InputLag, InputReads
from app.engine.partition.partition import Partition, State
from punctual.contract.namespaces import Namespaces

#: Commands are promised to hold that come well before the due time. An idle input is answered for every 100 ms, and
#: read from every 250.
BLIND_S = 3.0
_LOOK_S = 0.1


class InputLiveness:
    """Checks several times a second whether live partitions are still told what their inputs hold."""

    def __init__(
        self, hearing: InputReads, margins: Mapping[str, float], namespaces: Namespaces = NO_NAMESPACES
    ) -> None:
        """Have each live partition that has not heard of a topic for BLIND_S read its inputs again.

        The topics are those that have `margins`, in seconds, as InputLag has them; some are inputs of `namespaces`.
        """
        self._hearing, self._topics = hearing, tuple(margins)
        self._lag = InputLag(hearing, margins, namespaces)
        self._looked_s = 0.0
        #: What was last heard of each input, and when, by partition; and the life of the partition that it is of.
        self._heard: dict[int, tuple[int, dict[str, tuple[float | None, float]]]] = {}

    def look(self, partitions: Iterable[Partition], now_s: float) -> None:
        """Look, at a time of the event loop; whoever fires looks first."""
        since_s = now_s - self._looked_s
        if since_s < _LOOK_S:
            return
        self._looked_s = now_s
        for partition in partitions:
            if partition.state is not State.LIVE:
                self._lag.forget(partition)
            elif self._blind(partition, now_s) or since_s > BLIND_S:
                self._heard.pop(partition.number, None)
                self._lag.forget(partition)
                partition.lose_inputs()
            else:
                self._lag.look(partition, now_s, since_s)

    def behind_s(self, partition: Partition) -> float:
        """Return by how many seconds a partition has to hold back what is due, for its inputs are not read."""
        return self._lag.behind_s(partition)

    def apart_s(self, partition: Partition) -> Mapping[str, float]:
        """Return the same of namespaces whose messages it has to hold back for longer than all others."""
        return self._lag.apart_s(partition)

    def _blind(self, partition: Partition, now_s: float) -> bool:
        blind, life = False, partition.life
        of_life, heard = self._heard.get(partition.number, (life, {}))
        if of_life != life:
            heard = {}
        self._heard[partition.number] = life, heard
        for topic in self._topics:
            at = self._hearing.heard(topic, partition.number)
            # What is fetched and not in the table yet is not asked for again: then it is the table that must get on.
            mark = partition.writer.steps_read if self._hearing.ahead(topic, partition.number) else at
            last, last_s = heard.get(topic, (None, 0.0))
            if at is None or mark != last:
                heard[topic] = mark, now_s
            elif now_s - last_s > BLIND_S:
                blind = True
        return blind
