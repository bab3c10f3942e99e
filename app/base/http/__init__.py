"""HTTP out: which addresses may be reached, how a request is signed, and what a response means."""
