"""Gives an installation another number of partitions: writes the changelog again, offline (docs/decisions/0021).

command    `faust -A app repartition`
run        the stages, in order; each can be interrupted and repeated
moves      the new partition and key of a row; no I/O
survey     reads the old changelog once
ground     the cluster, the stores and the journals that all stages use
forwards   reads records in transit between partitions
copying    writes the new changelog
checking   reads the new changelog as a worker would, and compares
switching  gives topics their partitions, and makes the new changelog valid
"""
