"""Commands for operators: examine an installation, give it more partitions, run several worker processes."""
