"""The message contract: header names, where ids live, and one decoder a dialect."""
