"""What happens at a rebalance: each assigned partition goes through stages until it delivers; a revoked one finishes.

It is restored from the changelog, claimed as its only writer, has read the inputs that were unread, and knows what its
last owner had sent. `assignment` has the stages in order; the other modules are one stage, or a check, each.
"""
