"""The gateway: messages over HTTP, written to Kafka, or to a spool on disk while Kafka is away."""
