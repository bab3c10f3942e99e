"""The gateway's HTTP API: routes, forms of a message, responses, OpenAPI."""
