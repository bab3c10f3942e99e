"""Requests that wait on disk until Kafka has them."""
