"""Commits steps. `journal`: at least once, in a fixed order of writes. `transactional_journal`: exactly once."""
