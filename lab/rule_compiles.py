"""Measure the cost of turning tools into a grammar, by stage and by target. CPU seconds, the best of a few rounds.

Cold means that no cache contains anything built from tools. The format's plan and the vocabulary's tables do not depend
on tools; a process builds them once, and they exist before the measurement.
"""

import cProfile
import pstats
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import llguidance

from ferrule.core.request import ToolChoice
from ferrule.errors import FormatError
from ferrule.rules.cache import RuleCache, rule_key
from ferrule.rules.gbnf import emit_gbnf
from ferrule.rules.lark import emit_lark
from ferrule.rules.structural_tag import emit_structural_tag
from ferrule.wire.registry import get_format
from ferrule.wire.rule_builder import bind
from lab.paths import CACHE
from lab.rule_aims import SUSPECTS
from lab.rule_masks import VocabularyAdapter, read_vocabulary
from lab.rule_tools import sample_tools
from lab.workers import Worker

Advance = Callable[[str], None]
_Result = TypeVar("_Result")

FORMATS: Final = ("hermes", "qwen_xml")
SIZES: Final = (1, 10, 100, 500)
CHOICES: Final[Mapping[str, ToolChoice]] = {"auto": ToolChoice.auto(), "required": ToolChoice.required()}
STEPS: Final = len(FORMATS) * len(SIZES) * len(CHOICES)
ROUNDS: Final = 3
# The first tokens of the real vocabulary, which is sorted by merge order: the size of a small vocabulary.
VOCABULARY: Final = 32_000
# If xgrammar took longer than this for one size (seconds), the next size is read but not compiled.
_TOO_LONG: Final = 5
_HITS: Final = 20_000
_MODULES: Final = ("ferrule.rules.", "ferrule.wire.rule_builder")
# These caches contain tables of a vocabulary, nothing that depends on tools.
_KEPT: Final = ("_tokenizer", "_tokenizer_of")


def clear_tool_caches() -> int:
    """Clear every cache of the rules that may contain something built from tools; return their number."""
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith(_MODULES)]
    caches: dict[int, Any] = {
        id(value): value
        for module in modules
        for name, value in vars(module).items()
        if hasattr(value, "cache_clear") and not isinstance(value, type) and name not in _KEPT
    }
    for cached in caches.values():
        cached.cache_clear()
    return len(caches)


def xgrammar_compiles() -> Worker:
    interpreter = CACHE / "venvs" / "xgrammar" / "bin" / "python"
    return Worker(interpreter, "lab.peers.xgrammar_compile_worker", hint="run scripts/setup-oracles")


def measure(xgrammar: Worker, vocabulary: Path, advance: Advance) -> list[dict[str, Any]]:
    read = read_vocabulary(vocabulary, VOCABULARY)
    tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(VocabularyAdapter(read)))
    rows: list[dict[str, Any]] = []
    for name in FORMATS:
        bind(get_format(name), sample_tools(1))
        for choice in CHOICES:
            theirs: dict[str, Any] = {"compile": None}
            for size in SIZES:
                advance(f"{name}, {choice}, {size} tools")
                ours, tag = _ours(name, choice, size, tokenizer)
                if choice == "auto":
                    compiles = (theirs["compile"] or 0) < _TOO_LONG
                    request = {"tag": tag, "compiles": compiles, "vocabulary": str(vocabulary), "tokens": VOCABULARY}
                    theirs = _theirs(xgrammar, request, 1 if size >= 100 else ROUNDS)
                    ours["xgrammar"] = theirs
                rows.append(ours)
    return rows


def _ours(
    name: str, choice: str, size: int, tokenizer: llguidance.LLTokenizer
) -> tuple[dict[str, Any], dict[str, Any]]:
    tools, format, tool_choice = sample_tools(size), get_format(name), CHOICES[choice]
    rounds: list[dict[str, float]] = []
    tag: dict[str, Any] = {}
    for _ in range(ROUNDS):
        clear_tool_caches()
        bound, rule = time_of(lambda: bind(format, tools, tool_choice))
        emitted, lark = time_of(lambda rule=rule: emit_lark(rule))
        compiled, _ = time_of(lambda lark=lark: _compile(tokenizer, lark))
        clear_tool_caches()
        gbnf, _ = time_of(lambda rule=rule: emit_gbnf(rule))
        clear_tool_caches()
        tagged, tag = time_of(lambda rule=rule: emit_structural_tag(rule))
        keyed, key = time_of(lambda: rule_key(name, tools, tool_choice, "lark"))
        cache = RuleCache()
        cache.get(key, lambda lark=lark: lark)
        hit, _ = time_of(lambda cache=cache, key=key: [cache.get(key, str) for _ in range(_HITS)])
        rounds.append(
            {"bind": bound, "emit": emitted, "compile": compiled, "gbnf": gbnf, "tag": tagged, "key": keyed}
            | {"hit": hit / _HITS, "cold": bound + emitted + compiled}
        )
    best = {part: min(spent[part] for spent in rounds) for part in rounds[0]}
    return {"format": name, "choice": choice, "tools": size, **best}, tag


def _theirs(xgrammar: Worker, request: Mapping[str, Any], rounds: int) -> dict[str, Any]:
    answers = [xgrammar.ask(request) for _ in range(rounds)]
    problem = next((answer["error"] for answer in answers if answer["error"]), None)
    if problem:
        return {"read": None, "compile": None, "problem": problem}
    return min(answers, key=lambda answer: answer["seconds"]) | {"problem": None}


def time_of(work: Callable[[], _Result]) -> tuple[float, _Result]:
    """CPU seconds of this process, and the result."""
    started = time.process_time()
    result = work()
    return time.process_time() - started, result


def _compile(tokenizer: llguidance.LLTokenizer, lark: str) -> llguidance.LLMatcher:
    matcher = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_lark(lark), log_level=0)
    if matcher.is_error():
        raise FormatError(f"the grammar does not compile: {matcher.get_error():.300}", code="bad_grammar")
    return matcher


def shares(name: str, size: int) -> dict[str, float]:
    """What part of the CPU time of a cold bind and emit each suspect takes, with what it calls."""
    tools, format = sample_tools(size), get_format(name)
    bind(format, tools[:1])
    clear_tool_caches()
    profile = cProfile.Profile(time.process_time)
    profile.enable()
    emit_lark(bind(format, tools))
    profile.disable()
    stats: Any = pstats.Stats(profile)
    spent: Mapping[tuple[str, int, str], tuple[int, int, float, float, Any]] = stats.stats
    named = {f"{file.rpartition('/')[2]}:{function}": row[3] for (file, _, function), row in spent.items()}
    return {suspect: named.get(suspect, 0.0) / stats.total_tt for suspect in SUSPECTS}
