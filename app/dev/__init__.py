"""For developers.

broker   a real Kafka for this machine: `punctual.dev`, `punctual broker`
demo     the demonstration of `make run`
testing  tests of users' programs on a simulated clock: `punctual.testing`
former   module names of versions before 0.2.0
"""
