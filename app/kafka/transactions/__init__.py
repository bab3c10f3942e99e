"""Begins, fills and commits transactions (KIP-98).

`transaction` writes batches and commits them, `coordinator` sends requests to the broker that coordinates an id,
`completion` makes sure that the last transaction has ended everywhere, and `id_pool` has several ids that take turns.
"""
