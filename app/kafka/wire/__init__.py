"""The requests that a worker sends hundreds of times a second, packed by hand, and the connections that carry them."""
