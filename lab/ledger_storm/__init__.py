"""Kill and freeze processes that share one ledger, and check from outside that its guarantees hold.

Four workers run conversations, an approver decides on their calls, and two gateways answer clients with stored
responses. A driver kills any of them with SIGKILL and stops any of them with SIGSTOP for longer than its lease.
Nothing here knows how the ledger stores anything: it uses the public API, HTTP, and files that tools append to.

    script      the model and the tools: what a conversation does is a function of its name
    worker      a process that runs conversations, and takes over those that others left
    approver    a process that decides on the calls that wait for approval
    gateway     a process that serves stored responses
    reader      a client that records every event of a response, and returns after each broken connection
    processes   starts, kills, stops and continues processes
    storm       the driver
    checks      what must hold at the end
"""
