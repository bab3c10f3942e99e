"""Requests that wait on disk until Kafka has stored them."""
