"""What a queue holds: messages that wait to be handed out, and those that are out and not settled."""

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterable

from punctual.queue.message import Message

#: So many deadlines of what is settled are kept, beside as many as there are of what is not.
_SPARE = 1_000


class Held:
    """At most `limit` messages; `clock` gives seconds. A message that is past its deadline is on its way back."""

    def __init__(self, limit: int, clock: Callable[[], float]) -> None:
        """Hold nothing yet."""
        self._limit, self._clock = limit, clock
        self._waiting = deque[Message]()
        self._out: dict[str, Message] = {}
        #: A heap, of ids alone: many of them have been settled.
        self._deadlines: list[tuple[float, int, str]] = []
        self._turn = itertools.count()

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._waiting) + len(self._out)

    @property
    def waiting(self) -> int:
        """How many wait to be handed out."""
        return len(self._waiting)

    @property
    def out(self) -> int:
        """How many are handed out and not settled."""
        return len(self._out)

    @property
    def room(self) -> int:
        """How many more there may be."""
        return self._limit - len(self)

    @property
    def has_much_room(self) -> bool:
        """Whether there is room for a quarter of all that there may be."""
        return 4 * self.room >= self._limit

    @property
    def next_deadline(self) -> float | None:
        """When the next one that is out may expire."""
        return self._deadlines[0][0] if self._deadlines else None

    def add(self, messages: Iterable[Message]) -> None:
        """Let messages wait to be handed out."""
        self._waiting.extend(messages)

    def hand_out(self, most: int) -> tuple[list[Message], int]:
        """Return messages that go out, and how many were past their deadlines before."""
        found: list[Message] = []
        late, now = 0, self._clock()
        while self._waiting and len(found) < most:
            message = self._waiting.popleft()
            if message.deadline <= now:
                late += 1
                continue
            self._out[message.id] = message
            self.watch(message)
            found.append(message)
        return found, late

    def watch(self, message: Message) -> None:
        """Note the deadline of a message that is out."""
        if len(self._deadlines) > _SPARE + 2 * len(self._out):
            self._deadlines = [(one.deadline, next(self._turn), one.id) for one in self._out.values()]
            heapq.heapify(self._deadlines)
        heapq.heappush(self._deadlines, (message.deadline, next(self._turn), message.id))

    def settle(self, message: Message) -> bool:
        """Forget a message that is out; return whether it was."""
        if self._out.get(message.id) is not message:
            return False
        del self._out[message.id]
        return True

    def expire(self) -> int:
        """Forget messages that are past their deadlines; return how many."""
        count, now = 0, self._clock()
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, _, id_ = heapq.heappop(self._deadlines)
            message = self._out.get(id_)
            if message is not None and message.deadline <= deadline:  # else it was extended, which is noted too
                count += self.settle(message)
        return count

    def take_back(self) -> list[Message]:
        """Return all that wait to be handed out; they do no more."""
        found = [message for message in self._waiting if message.deadline > self._clock()]
        self._waiting.clear()
        return found
