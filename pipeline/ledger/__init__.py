"""The ledger: the outcome of every request, as a Delta Lake table, read from the installation's topics alone.

Each run adds the new records of the request and event topics in one commit (`pipeline.lake`), so a killed run has no
effect. It also notes the workers' progress, which it reads in between (`ledger.intake` explains the order).
"""

from pipeline.ledger.lives import created_again, lives, pending

KIND = "ledger"

__all__ = ["KIND", "created_again", "lives", "pending"]
