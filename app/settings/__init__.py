"""The settings of workers and gateways, read from environment variables.

settings  reads and checks all settings, by section
declared  how a setting is declared and read
values    valid values: durations, patterns, numbers
checks    consistency of settings with each other

Each part takes only the sections that it needs:

kafka         brokers, logins, other clusters
topics        the names of topics, inputs, namespaces and quotas
destinations  allowed topics and URLs, rates
retention     how long ids and commands are remembered, and when messages go to the cold tier
engine        the guarantee, limits of partitions, accepted losses
process       addresses, the data directory, logs
web           the console
gateway       the gateway
"""
