"""The HTTP API of workers and gateways as OpenAPI 3.1, generated from the structures of its requests and responses."""
