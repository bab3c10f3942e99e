"""Finds what is wrong with an installation, without writing anything.

    command      `faust -A app doctor`, and its output
    examination  gathers the facts and runs all checks
    facts        what is known of the cluster, the workers and this machine
    cluster      asks the cluster
    machine      asks this machine
    finding      the result of one check, and what to do about it
    examiner     GET /api/v1/findings

Each check is a function of facts: brokers, topics, destinations, permissions, clocks, workers, disk and others.
"""
