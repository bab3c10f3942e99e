"""Checks an installation for problems, without writing anything.

    command      `faust -A app doctor`, and its output
    examination  gathers the facts and runs all checks
    facts        the facts about the cluster, the workers and this machine
    cluster      asks the cluster
    machine      asks this machine
    finding      the result of one check, and what to do about it
    examiner     GET /api/v1/findings

Each check is a function of the facts: brokers, topics, destinations, permissions, clocks, workers, disk and others.
"""
