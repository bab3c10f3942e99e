"""A topic and the number of one of its partitions, as a pair."""

#: A topic and the number of one of its partitions.
TopicPartition = tuple[str, int]
