"""The pure core: what changes together in one step, and what records and outcomes do to messages. No I/O."""
