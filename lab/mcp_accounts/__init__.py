"""Accounts of many principals at MCP servers, while everything around them is killed and started again.

A real authorization server (oidc-provider) gives tokens of 20 seconds for two MCP servers. Two gateways on one ledger
call them for three tenants with three principals each: one server has an account for each principal, the other one for
each tenant. Gateways are killed with SIGKILL, the MCP servers and the authorization server are started again, and one
grant is revoked.

    authorization_server.mjs  the authorization server, which keeps a log and a list of all that it gave away
    server                    an MCP server that says who its caller's token is for
    processes                 starts and stops both
    browser                   a person who signs in and consents
    run                       the driver: what happens when, and what is counted
    leaks                     looks for the tokens where none may be
    page                      the table
"""
