"""The message contract: header names, where ids live, and the dialects of requests."""
