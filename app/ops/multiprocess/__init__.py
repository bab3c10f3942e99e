"""`faust -A app worker --processes N`: several workers started and watched by one process, behind one address.

`plan` computes each process's environment, `supervisor` starts and restarts the processes, `front` answers at the
address that a single worker would have, and `metrics` merges their metrics.
"""
