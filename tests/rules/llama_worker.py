"""Run completions in llama.cpp's own server, in process. Run it with the interpreter that has llama.cpp, not in pytest.

The first argument is the model file. Each line of stdin is a request to the server, each line of stdout its answer.
"""

import importlib
import json
import os
import sys
from typing import Any

# The engine logs to stdout, so the answers get their own file descriptor first.
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
# The server's threads never end by themselves.
os._exit(0)
