"""Proof of account: whether everything that was accepted has ended or is pending, and what is lost.

Lost is not late. A message is lost only when the worker in whose partition it lives has told that it has dealt with all
that was due until after this one was, and had read what put it there. A worker that is down tells nothing, and so
nothing of its partitions is lost.
"""
