"""llama.cpp's own HTTP server, from xllamacpp. Runs in the interpreter of its venv, which does not have Ferrule.

Arguments: the model, the port, the number of slots, the tokens of context over all of them, a chat template's file or
nothing, and how the vectors of tokens become an embedding, if the server shall compute embeddings.
"""

import importlib
import os
import signal
import sys
from typing import Any

# Blocked before the engine starts its threads, so that only this thread gets the signal.
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])

xllamacpp: Any = importlib.import_module("xllamacpp")


def main() -> None:
    params = xllamacpp.CommonParams()
    params.model.path = sys.argv[1]
    params.hostnames = ["127.0.0.1"]
    params.port = int(sys.argv[2])
    params.n_parallel = int(sys.argv[3])
    params.n_ctx = int(sys.argv[4])
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.use_jinja = True
    if len(sys.argv) > 6:
        params.embedding = True
        params.pooling_type = getattr(xllamacpp.llama_pooling_type, f"LLAMA_POOLING_TYPE_{sys.argv[6].upper()}")
    if len(sys.argv) > 5 and sys.argv[5]:
        with open(sys.argv[5], encoding="utf-8") as template:
            params.chat_template = template.read()
    server = xllamacpp.Server(params)
    print("ready", server.listening_address, flush=True)
    signal.sigwait([signal.SIGTERM, signal.SIGINT])
    os._exit(0)


main()
