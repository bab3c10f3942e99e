"""What has become a dead letter: found by a filter, newest first, by any worker, from Kafka alone."""
