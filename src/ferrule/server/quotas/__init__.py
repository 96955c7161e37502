"""Quotas: how much callers may use in a minute, an hour or a day, over all workers and replicas of a gateway."""
