"""The ledger: a database that records calls before they run, so that each runs at most once."""
