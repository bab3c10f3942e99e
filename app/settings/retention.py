"""Settings for how long messages wait and ids are remembered (docs/reference/settings.md)."""

from dataclasses import dataclass

from app.settings.declared import setting
from app.settings.gateway import GATEWAY_DEDUPE_MS
from app.settings.topics import TopicSettings
from punctual.contract.times import parse_duration

#: The longest window that a sender may request, because each id takes disk space until its window ends. Operators may
#: set a longer one.
MOST_DEDUPE_MS = 30 * 86_400_000
#: A worker remembers its last report to the cold tier about an id for at least this long. Two minutes of the time are
#: for differences between clocks, and for records that are not readable yet.
COLD_MEMORY_MS = 10 * 60_000
#: A command for an ID that is not pending is remembered for this long, and so is the end of a message: producers retry
#: for minutes, and a late request must not undo a later command. Ten minutes of ended messages fit on a small disk.
COMMAND_MEMORY_MS = 10 * 60_000


@dataclass(frozen=True, kw_only=True, slots=True)
class RetentionSettings:
    """How long messages wait in the table, and how long ids and commands are remembered, in milliseconds."""

    horizon_ms: int = setting("DELAY_HORIZON", "0", parse_duration, shared=True)
    dedupe_window_ms: int = setting("DELAY_DEDUPE_WINDOW", "0", parse_duration, shared=True)

    def longest_dedupe_ms(self, topics: TopicSettings) -> int:
        """Return the longest window that a request may have: 30 days, or more if the settings have more."""
        of_inputs = (policies.dedupe_ms or 0 for policies in topics.policies.values())
        return max(MOST_DEDUPE_MS, self.dedupe_window_ms, *of_inputs)

    @property
    def gateway_dedupe_ms(self) -> int:
        """The window of messages from a gateway, unless the message or its input sets one."""
        return max(GATEWAY_DEDUPE_MS, self.dedupe_window_ms)

    @property
    def cold_memory_ms(self) -> int:
        """How long a worker remembers its last report to the cold tier about an id."""
        return max(self.dedupe_window_ms, COLD_MEMORY_MS)

    @property
    def command_memory_ms(self) -> int:
        """How long commands for an id without a message are remembered."""
        return max(COMMAND_MEMORY_MS, self.dedupe_window_ms) if self.horizon_ms else COMMAND_MEMORY_MS
