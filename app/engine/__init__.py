"""What moves messages: from a request that arrives to the delivery, and all that this needs."""
