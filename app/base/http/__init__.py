"""HTTP out: which addresses may be reached, how a request is signed, and what an answer means."""
