"""Restart Postgres, and fail over to a standby, under gateways and bus workers at work; then check from outside.

forwarder    a TCP forwarder before Postgres, as a load balancer or a virtual address is
bus          gateways whose tools are on a bus, and the workers that run them
chat_client  a client of the chat API that retries with the same Idempotency-Key
run          the sequence of events, the checks, and the report
"""
