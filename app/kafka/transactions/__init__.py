"""Transactions (KIP-98): their coordinator, their ends, and several transactional ids that take turns."""
