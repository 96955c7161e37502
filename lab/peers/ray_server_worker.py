"""Ray Serve LLM on one machine, in front of vLLM. Runs in the interpreter of vLLM's venv, which does not have Ferrule.

Arguments: the model's folder, the port, the folder for Ray's own files, how many replicas of vLLM, and a chat
template's file. Ray listens on loopback only, without its dashboard and without usage statistics.
"""

import importlib
import os
import signal
import sys
import threading
from typing import Any

# Read when Ray is imported. The first keeps Ray on loopback; it is named after the platform where it is the default.
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

ray: Any = importlib.import_module("ray")
serve: Any = importlib.import_module("ray.serve")
llm: Any = importlib.import_module("ray.serve.llm")


def stay_on_loopback() -> None:
    """Make replicas listen on loopback: by default they use every interface, and there is no setting for it."""
    tls: Any = importlib.import_module("ray._common.tls_utils")
    listen = tls.add_port_to_grpc_server

    def listen_on_loopback(server: Any, address: str) -> Any:
        return listen(server, address.replace("[::]", "127.0.0.1"))

    tls.add_port_to_grpc_server = listen_on_loopback


def main() -> None:
    model, port, folder, replicas, template = sys.argv[1:]
    ray.init(
        # The CPUs that Ray counts, not those of the machine: each replica and the front request one of their own.
        num_cpus=2 * int(replicas) + 2,
        include_dashboard=False,
        object_store_memory=100 * 1024 * 1024,
        runtime_env={"worker_process_setup_hook": stay_on_loopback},
        _temp_dir=folder,
        _plasma_directory=folder,
        _system_config={"enable_metrics_collection": False},
    )
    config = llm.LLMConfig(
        model_loading_config={"model_id": "smol", "model_source": model},
        engine_kwargs={
            "dtype": "float32",
            "max_model_len": 4096,
            "max_num_seqs": 16,
            "enforce_eager": True,
            "chat_template": template,
        },
        placement_group_config={"bundles": [{"CPU": 1}]},
        deployment_config={"num_replicas": int(replicas)},
        log_engine_metrics=False,
    )
    app = llm.build_openai_app({"llm_configs": [config], "ingress_deployment_config": {"num_replicas": 1}})
    serve.start(http_options={"host": "127.0.0.1", "port": int(port)})
    serve.run(app)
    # Set after Ray's own handlers. A blocked signal would be inherited by Ray's children, which Ray then could not end.
    ended = threading.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, lambda _sign, _frame: ended.set())
    print("ready", port, flush=True)
    ended.wait()
    serve.shutdown()
    ray.shutdown()


main()
