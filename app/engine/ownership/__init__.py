"""Which partitions a worker has, and how each comes from assignment to firing: restored, alone, caught up."""
