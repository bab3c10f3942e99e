"""The messages of a queue: waiting to be handed out, or handed out and not settled."""

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterable

from punctual.queue.message import Message

#: The number of outdated deadlines that may be kept, in addition to twice the number of messages that are out.
_SPARE = 1_000


class Held:
    """At most `limit` messages; `clock` returns seconds. The marker of a message past its deadline brings it back."""

    def __init__(self, limit: int, clock: Callable[[], float]) -> None:
        """Begin without messages."""
        self._limit, self._clock = limit, clock
        self._waiting = deque[Message]()
        self._out: dict[str, Message] = {}
        #: A heap with ids; many of the messages may be settled already.
        self._deadlines: list[tuple[float, int, str]] = []
        self._turn = itertools.count()

    def __len__(self) -> int:
        """Return the number of messages."""
        return len(self._waiting) + len(self._out)

    @property
    def waiting(self) -> int:
        """The number of messages that wait to be handed out."""
        return len(self._waiting)

    @property
    def out(self) -> int:
        """The number of messages that are handed out and not settled."""
        return len(self._out)

    @property
    def room(self) -> int:
        """The number of messages that fit in addition."""
        return self._limit - len(self)

    @property
    def has_much_room(self) -> bool:
        """Whether there is room for a quarter of the limit."""
        return 4 * self.room >= self._limit

    @property
    def next_deadline(self) -> float | None:
        """When the next message that is out may expire."""
        return self._deadlines[0][0] if self._deadlines else None

    def add(self, messages: Iterable[Message]) -> None:
        """Add messages that wait to be handed out."""
        self._waiting.extend(messages)

    def hand_out(self, most: int) -> tuple[list[Message], int]:
        """Return at most `most` messages to hand out, and the number of messages dropped because of their deadlines."""
        messages: list[Message] = []
        late, now = 0, self._clock()
        while self._waiting and len(messages) < most:
            message = self._waiting.popleft()
            if message.deadline <= now:
                late += 1
                continue
            self._out[message.id] = message
            self.watch(message)
            messages.append(message)
        return messages, late

    def watch(self, message: Message) -> None:
        """Record the deadline of a message that is out."""
        if len(self._deadlines) > _SPARE + 2 * len(self._out):
            self._deadlines = [(one.deadline, next(self._turn), one.id) for one in self._out.values()]
            heapq.heapify(self._deadlines)
        heapq.heappush(self._deadlines, (message.deadline, next(self._turn), message.id))

    def settle(self, message: Message) -> bool:
        """Remove a message that is out; return False if it was not out."""
        if self._out.get(message.id) is not message:
            return False
        del self._out[message.id]
        return True

    def expire(self) -> int:
        """Remove messages past their deadlines; return their number."""
        count, now = 0, self._clock()
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, _, id_ = heapq.heappop(self._deadlines)
            message = self._out.get(id_)
            if message is not None and message.deadline <= deadline:  # an extended message has another entry
                count += self.settle(message)
        return count

    def take_back(self) -> list[Message]:
        """Remove and return all waiting messages, without those past their deadlines."""
        messages = [message for message in self._waiting if message.deadline > self._clock()]
        self._waiting.clear()
        return messages
