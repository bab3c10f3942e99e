"""The settings of workers and gateways, read from environment variables."""
