"""Run two gateways through a day of operations under load, and count what their clients lose: `scripts/long operate`.

engine       the scripted engine behind the gateways
tool_file    the gateways' Python tools, in two versions; one of them has an effect that is written to a file
sums_server  the MCP server that is added during the day
gateway      one gateway, which can be signalled, ended and started again
envoy        Envoy before both of them
stage        all servers together: Postgres, Valkey, the engine, two gateways of two workers, and Envoy before them
kinds        what clients ask, and which answer is whole
client       one request, sent again as OpenAI's SDK does
load         an open-loop schedule of requests
budgets      quotas that are asked for more than they allow
operator     what the operator asks gateways directly
day          the steps as a table, and the clock that takes them
allowances   the losses that the documentation permits, with its sentences
findings     what is counted afterwards, and what is a breach
run          one day, and the report on it
page         the section of results.md
"""
