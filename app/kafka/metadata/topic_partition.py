"""Where a record lies, but for its offset."""

#: A topic and the number of one of its partitions.
TopicPartition = tuple[str, int]
