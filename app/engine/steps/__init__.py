"""The pure core: what changes together in one step, and what orders and outcomes do to messages. No I/O."""
