"""What it costs to turn tools into a grammar, part by part and target by target. CPU seconds, the best of a few rounds.

Cold: no cache holds anything that was made from tools. The format's own plan and the vocabulary's tables are made once
in the life of a process, whatever the tools, and are there already.
"""

import cProfile
import pstats
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import llguidance

from ferrule.core.choice import ToolChoice
from ferrule.errors import FormatError
from ferrule.rules.cache import RuleCache, rule_key
from ferrule.rules.gbnf import emit_gbnf
from ferrule.rules.lark import emit_lark
from ferrule.rules.structural_tag import emit_structural_tag
from ferrule.wire.registry import get_format
from ferrule.wire.rule_builder import bind
from lab.paths import CACHE
from lab.rule_aims import SUSPECTS
from lab.rule_masks import Wrapped, read_vocabulary
from lab.rule_tools import made_tools
from lab.workers import Worker

Advance = Callable[[str], None]
_Made = TypeVar("_Made")

FORMATS: Final = ("hermes", "qwen_xml")
SIZES: Final = (1, 10, 100, 500)
CHOICES: Final[Mapping[str, ToolChoice]] = {"auto": ToolChoice.auto(), "required": ToolChoice.required()}
STEPS: Final = len(FORMATS) * len(SIZES) * len(CHOICES)
ROUNDS: Final = 3
# Of the real vocabulary, which is in the order of its merges: as many as a small vocabulary has.
VOCABULARY: Final = 32_000
# Where the last size took xgrammar so many seconds, the next is only read.
_TOO_LONG: Final = 5
_HITS: Final = 20_000
# These hold tables of a vocabulary, nothing of tools.
_KEPT: Final = ("_tokenizer", "_tokenizer_of")


def forget_tools() -> int:
    """Empties every cache of the rules that may hold something made from tools; says how many there are."""
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith("ferrule.rules.")]
    held: dict[int, Any] = {
        id(value): value
        for module in modules
        for name, value in vars(module).items()
        if hasattr(value, "cache_clear") and not isinstance(value, type) and name not in _KEPT
    }
    for cached in held.values():
        cached.cache_clear()
    return len(held)


def xgrammar_compiles() -> Worker:
    interpreter = CACHE / "venvs" / "xgrammar" / "bin" / "python"
    return Worker(interpreter, "lab.peers.xgrammar_compile_worker", hint="run scripts/setup-oracles")


def measure(xgrammar: Worker, vocabulary: Path, advance: Advance) -> list[dict[str, Any]]:
    read = read_vocabulary(vocabulary, VOCABULARY)
    tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Wrapped(read)))
    rows: list[dict[str, Any]] = []
    for name in FORMATS:
        bind(get_format(name), made_tools(1))
        for choice in CHOICES:
            theirs: dict[str, Any] = {"compile": None}
            for size in SIZES:
                advance(f"{name}, {choice}, {size} tools")
                ours, tag = _ours(name, choice, size, tokenizer)
                if choice == "auto":
                    compiles = (theirs["compile"] or 0) < _TOO_LONG
                    asked = {"tag": tag, "compiles": compiles, "vocabulary": str(vocabulary), "tokens": VOCABULARY}
                    theirs = _theirs(xgrammar, asked, 1 if size >= 100 else ROUNDS)
                    ours["xgrammar"] = theirs
                rows.append(ours)
    return rows


def _ours(
    name: str, choice: str, size: int, tokenizer: llguidance.LLTokenizer
) -> tuple[dict[str, Any], dict[str, Any]]:
    tools, format, chosen = made_tools(size), get_format(name), CHOICES[choice]
    rounds: list[dict[str, float]] = []
    tag: dict[str, Any] = {}
    for _ in range(ROUNDS):
        forget_tools()
        bound, rule = _timed(lambda: bind(format, tools, chosen))
        emitted, lark = _timed(lambda rule=rule: emit_lark(rule))
        compiled, _ = _timed(lambda lark=lark: _compiled(tokenizer, lark))
        forget_tools()
        gbnf, _ = _timed(lambda rule=rule: emit_gbnf(rule))
        forget_tools()
        tagged, tag = _timed(lambda rule=rule: emit_structural_tag(rule))
        keyed, key = _timed(lambda: rule_key(name, tools, chosen, "lark"))
        cache = RuleCache()
        cache.get(key, lambda lark=lark: lark)
        hit, _ = _timed(lambda cache=cache, key=key: [cache.get(key, str) for _ in range(_HITS)])
        rounds.append(
            {"bind": bound, "emit": emitted, "compile": compiled, "gbnf": gbnf, "tag": tagged, "key": keyed}
            | {"hit": hit / _HITS, "cold": bound + emitted + compiled}
        )
    best = {part: min(spent[part] for spent in rounds) for part in rounds[0]}
    return {"format": name, "choice": choice, "tools": size, **best}, tag


def _theirs(xgrammar: Worker, asked: Mapping[str, Any], rounds: int) -> dict[str, Any]:
    answers = [xgrammar.ask(asked) for _ in range(rounds)]
    problem = next((answer["error"] for answer in answers if answer["error"]), None)
    if problem:
        return {"read": None, "compile": None, "problem": problem}
    return min(answers, key=lambda answer: answer["seconds"]) | {"problem": None}


def _timed(work: Callable[[], _Made]) -> tuple[float, _Made]:
    started = time.process_time()
    made = work()
    return time.process_time() - started, made


def _compiled(tokenizer: llguidance.LLTokenizer, lark: str) -> llguidance.LLMatcher:
    made = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_lark(lark), log_level=0)
    if made.is_error():
        raise FormatError(f"the grammar does not compile: {made.get_error():.300}", code="bad_grammar")
    return made


def shares(name: str, size: int) -> dict[str, float]:
    """What part of the CPU time of a cold bind and emit each suspect takes, with what it calls."""
    tools, format = made_tools(size), get_format(name)
    bind(format, tools[:1])
    forget_tools()
    profile = cProfile.Profile(time.process_time)
    profile.enable()
    emit_lark(bind(format, tools))
    profile.disable()
    stats: Any = pstats.Stats(profile)
    spent: Mapping[tuple[str, int, str], tuple[int, int, float, float, Any]] = stats.stats
    named = {f"{file.rpartition('/')[2]}:{function}": row[3] for (file, _, function), row in spent.items()}
    return {suspect: named.get(suspect, 0.0) / stats.total_tt for suspect in SUSPECTS}
