"""The settings of workers and gateways, read from environment variables.

settings  reads and checks all settings, and has them by section
declared  how one is declared and read
values    what a value may be: durations, patterns, numbers
checks    whether settings fit together

The sections, each of which a part can take alone:

kafka         brokers, logins, other clusters
topics        the names of topics, inputs, namespaces and quotas
destinations  allowed topics and URLs, rates
retention     how long ids and commands are remembered, and when messages go to the cold tier
engine        the guarantee, limits of partitions, accepted losses
process       addresses, the data directory, logs
web           the console
gateway       the gateway
"""
