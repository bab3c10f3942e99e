"""The gateway: takes messages over HTTP and writes them to Kafka, or to a spool on disk while it is down."""
