"""For developers: a broker for this machine, the demo of `make run`, and tests on a simulated clock."""
