"""One partition at work: the single writer that gathers what comes into steps."""
