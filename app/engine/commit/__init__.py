"""Steps become durable: at least once in a fixed order of writes, exactly once as transactions."""
