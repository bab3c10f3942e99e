"""Hand-written encoders for the requests that a worker sends hundreds of times a second, and their connections."""
