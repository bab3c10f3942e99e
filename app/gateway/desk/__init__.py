"""The steps of a request between the HTTP body and the spool: checks, defaults, origin, receipts."""
