"""What brokers say of themselves and their topics, and what stands in one partition."""
