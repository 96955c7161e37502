"""Runs completions in llama.cpp's own server, in process. Started by the interpreter that has it, not by pytest.

The first argument is the model's file. Each line of stdin is a request as the server takes it, each line of stdout its
answer.
"""

import importlib
import json
import os
import sys
from typing import Any

# The engine logs to the same place as print does, so the answers get a place of their own first.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

xllamacpp: Any = importlib.import_module("xllamacpp")
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_parallel, params.n_ctx = 1, 2048
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
params.warmup = False
server = xllamacpp.Server(params)
for line in sys.stdin:
    print(json.dumps(server.handle_completions(json.loads(line))), file=answers, flush=True)
answers.flush()
# The server's threads do not end by themselves.
os._exit(0)
