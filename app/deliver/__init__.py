"""Due messages on their way to destination topics, and failure callbacks on theirs."""
