"""Records that were read back from Kafka, in the form that a worker decodes."""

from confluent_kafka import Message


class Kept:
    """A record with the fields that a decoder of the contract reads."""

    def __init__(self, message: Message) -> None:
        self.topic, self.partition, self.offset = message.topic(), message.partition(), message.offset()
        self.timestamp, self.key, self.value = message.timestamp()[1], message.key(), message.value()
        self.headers = message.headers() or []
