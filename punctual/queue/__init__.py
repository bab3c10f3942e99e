"""Queues whose messages are acknowledged one by one, on any Kafka topic: `DelayQueue`.

intake   reads records; their start markers are in Kafka before their offsets are committed
markers  start and end markers as requests and commands
held     what is read and not yet acknowledged, and until when
breaker  how a flood of errors slows the queue down
outbox   what is on its way to Kafka while the program goes on
reporter tells the workers' page how the queue is
queue    puts them together
message  what a program gets
"""

from punctual.queue.breaker import Breaker
from punctual.queue.message import Message
from punctual.queue.queue import DelayQueue
from punctual.queue.stats import Stats

__all__ = ["Breaker", "DelayQueue", "Message", "Stats"]
