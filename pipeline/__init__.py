"""The Spark jobs: bulk requests, the cold tier, the ledger and its proof of account. They know topics, not workers."""
