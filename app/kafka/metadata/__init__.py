"""Metadata of brokers and topics, offsets, and a reader of one partition."""
