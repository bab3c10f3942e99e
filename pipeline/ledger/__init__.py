"""The ledger: what became of every request, in Parquet, from the installation's topics alone.

Each run adds what is new on the request and event topics in one commit (`pipeline.lake`), so that a killed run leaves
nothing behind, and notes what the workers had told of their progress in between (`ledger.intake` says in which order).
"""

from pipeline.ledger.lives import lives, pending

KIND = "ledger"

__all__ = ["KIND", "lives", "pending"]
