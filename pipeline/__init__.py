"""The Spark jobs: bulk requests, the cold tier, the ledger and its reconciliation. They use topics, never workers."""
