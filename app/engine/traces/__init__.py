"""Spans of what is done to messages that are traced, for OpenTelemetry. Nothing of it is imported while it is off."""
