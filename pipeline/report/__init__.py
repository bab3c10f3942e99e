"""The report of a ledger: one HTML page with charts."""
