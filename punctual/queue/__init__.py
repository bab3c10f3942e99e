"""Queues whose messages are acknowledged one by one, on any Kafka topic: `DelayQueue`.

queue       puts the parts together
message     what a program gets
intake      reads records; their start markers are in Kafka before their offsets are committed
markers     start and end markers as requests and commands
settlement  ack, nack, extend: what becomes of a message
held        messages that are read and not yet acknowledged, and until when
breaker     slows the queue down when errors flood it
outbox      records on their way to Kafka while the program goes on
reporter    reports the state of the queue to the console
"""

from punctual.queue.breaker import Breaker
from punctual.queue.message import Message
from punctual.queue.queue import DelayQueue
from punctual.queue.stats import Stats

__all__ = ["Breaker", "DelayQueue", "Message", "Stats"]
