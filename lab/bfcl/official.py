"""The worker process that runs BFCL's own scorer; one JSON line per request and per answer. Used by `agreement`.

A request has "documents", "output" (a list of {name: arguments}), "answers" (as in the official file), "category" and
"is_underscored"; the answer has "is_valid" and "error_type". The official package is unpacked, not installed: of all
its imports, the scorer needs only one setting from a table of models, which is defined here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from lab.line_server import serve
from lab.paths import CACHE
from lab.peers.stubs import Finder

SOURCES: Final = CACHE / "wheels" / "bfcl_scorer"
_SCORER: Final = "bfcl_eval.eval_checker.ast_eval"
_REAL: Final = (_SCORER, "bfcl_eval.constants.enums", "bfcl_eval.constants.type_mappings")


@dataclass(frozen=True, slots=True)
class _Model:
    underscore_to_dot: bool


_MODELS: Final = {"dotted": _Model(underscore_to_dot=False), "underscored": _Model(underscore_to_dot=True)}


@cache
def _scorer() -> tuple[Callable[..., Mapping[str, Any]], Any]:
    Finder(
        "bfcl_eval", SOURCES, _REAL, {"bfcl_eval.constants.model_config": {"MODEL_CONFIG_MAPPING": _MODELS}}
    ).install()
    from importlib import import_module

    python = import_module("bfcl_eval.constants.enums").Language.PYTHON
    return import_module(f"{_SCORER}.ast_checker").ast_checker, python


def prepare(request: Mapping[str, Any]) -> Callable[[], Mapping[str, Any]]:
    scorer, python = _scorer()
    model = "underscored" if request["is_underscored"] else "dotted"

    def score() -> Mapping[str, Any]:
        arguments = (request["documents"], request["output"], request["answers"], python, request["category"], model)
        verdict = scorer(*arguments)
        return {"error": None, "is_valid": verdict["valid"], "error_type": verdict.get("error_type", "")}

    return score


if __name__ == "__main__":
    serve(prepare)
