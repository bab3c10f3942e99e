"""The gateway's HTTP API: routes, forms of a message, answers, OpenAPI."""
