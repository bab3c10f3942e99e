"""Queues whose messages are acknowledged one by one, on any Kafka topic: `DelayQueue`.

queue       assembles the parts
message     a message for programs
intake      reads records; their start markers are in Kafka before their offsets are committed
markers     start and end markers as requests and commands
settlement  ack, nack, extend
held        messages that are read and not yet acknowledged, and their deadlines
breaker     slows the queue down when too many messages fail
outbox      sends records to Kafka in the background
reporter    reports the state of the queue to the console
"""

from punctual.queue.breaker import Breaker
from punctual.queue.message import Message
from punctual.queue.queue import DelayQueue
from punctual.queue.stats import Stats

__all__ = ["Breaker", "DelayQueue", "Message", "Stats"]
