"""Authentication, authorization and limits: hosts, keys, rates, and the size of requests."""
