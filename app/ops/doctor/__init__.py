"""What is wrong with an installation, as far as it can be seen without writing anything.

finding        one thing that was looked at, and what to do about it
facts          what is known of the cluster, the workers and this machine
cluster        asks the cluster
machine        asks this machine
examination    gathers the facts and checks them all; the checks themselves are functions of facts:
brokers, topics, destinations, rights, clocks, workers, disk, process
command        `faust -A app doctor`
routes         GET /api/v1/findings
"""
