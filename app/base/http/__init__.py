"""Outgoing HTTP: allowed addresses, signatures of requests, meanings of responses."""
