"""Another number of partitions: the changelog written anew, offline (docs/decisions/0021).

command     `faust -A app repartition`
run         the stages, in order; each can be cut off and done again
moves       where a row goes, and under which key; no I/O
survey      what the old changelog holds, looked at once
ground      the cluster, the stores and the journals that all stages use
forwards    what waits on its way between partitions
copying     writes the new changelog
checking    reads it back, as a worker would, and compares
switching   gives topics their partitions, and says that the new changelog holds
"""
