"""How much destinations get: what operators pause and cap, and when there is room for another message."""
