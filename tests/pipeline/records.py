"""Consumed records in the form that the contract's decoders read."""

from confluent_kafka import Message


class ConsumedRecord:
    """A consumed message with the fields that a decoder of the contract reads."""

    def __init__(self, message: Message) -> None:
        self.topic, self.partition, self.offset = message.topic(), message.partition(), message.offset()
        self.timestamp, self.key, self.value = message.timestamp()[1], message.key(), message.value()
        self.headers = message.headers() or []
