"""Sends due messages to their destinations, and makes failure callbacks.

`dispatcher` sends to topics, in a transaction `transactional_dispatcher` does; `posts` sends to URLs.
"""
