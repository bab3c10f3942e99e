"""Rebalances: each assigned partition passes through stages until it delivers, and a revoked one finishes its work.

A partition is restored from the changelog, claimed by this worker as its only writer, reads the backlog of the inputs,
and searches the destinations for deliveries of its last owner. `assignment` has the stages in order; the other modules
are one stage, or a check, each.
"""
