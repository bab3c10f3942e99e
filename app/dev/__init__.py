"""For developers.

broker   a real Kafka for this machine: `punctual.dev`, `punctual broker`
demo     what `make run` shows
testing  tests of users' programs on a simulated clock: `punctual.testing`
former   names that modules had until 0.2.0
"""
