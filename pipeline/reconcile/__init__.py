"""Reconciliation: checks that every accepted message has ended or is pending, and finds lost messages.

Lost is not late. A message is lost only if the owner of its home partition has reported that it has read the request,
and that all messages due by then have ended, and the message has no ending. A worker that is down reports no progress,
so its messages are late, not lost.
"""
