"""Measure the costs of the specification in one checkout: a process that `cost_targets` asks by turns with another's.

It reads one JSON object per line and answers with one. It uses only functions that older checkouts have too, and takes
`ferrule` from wherever PYTHONPATH points.

    {"measure": "cold", "tools": "sample", "count": 10, "format": "hermes", "choice": "auto"}
    {"ours": 0.009, "bare": 0.007}

Times are CPU seconds, except those of masks, which are microseconds of wall time for each step of a reply. `bare` is
what llguidance takes alone for the grammar that was emitted.
"""

import gc
import json
import re
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Final

import llguidance
import numpy
from llguidance.numpy import allocate_token_bitmask, apply_token_bitmask_inplace, fill_next_token_bitmask

from ferrule.bench.bfcl_tools import FunctionDocument, distinct_documents, function_documents
from ferrule.core.call import ToolCall
from ferrule.core.reply import Reply
from ferrule.core.request import ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.engines.checkpoint.gguf import read_metadata, vocabulary_of
from ferrule.errors import SchemaError
from ferrule.rules.cache import RuleCache, rule_key
from ferrule.rules.lark import emit_lark
from ferrule.rules.logit_processor import LogitProcessor
from ferrule.rules.rule import Rule, Value
from ferrule.rules.vocabulary import Vocabulary
from ferrule.schema.admission import admit
from ferrule.wire.parser import Parser
from ferrule.wire.registry import get_format
from ferrule.wire.renderer import render
from ferrule.wire.rule_builder import bind
from lab.paths import CACHE
from lab.rule_compiles import clear_tool_caches
from lab.rule_masks import VocabularyAdapter, llama3_model, read_vocabulary
from lab.rule_tools import sample_tools

CHOICES: Final = {"auto": ToolChoice.auto(), "required": ToolChoice.required()}
SMALL_MODEL: Final = CACHE / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
BFCL: Final = CACHE / "wheels" / "bfcl_eval" / "bfcl_eval" / "data"
_HITS: Final = 20_000
_VALUES: Final = {"string": "The quick brown fox, and 12 more.", "integer": 3, "number": 12.5, "boolean": True}
# Keywords that the fast way of simple schemas does not know, one set of them for each tool.
_HARD: Final[tuple[dict[str, Any], ...]] = (
    {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$"},
    {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
    {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 9},
    {"type": "object", "patternProperties": {"^x_": {"type": "integer"}}, "additionalProperties": False},
    {"oneOf": [{"type": "string", "maxLength": 9}, {"type": "boolean"}], "description": "Either."},
    {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5},
)
_NODE: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "inner": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
    "required": ["name"],
}


@cache
def tools_of(kind: str, count: int) -> tuple[ToolDefinition, ...]:
    match kind:
        case "sample":
            return sample_tools(count)
        case "hard":
            return tuple(map(_hard_tool, range(count)))
        case _:
            documents = {document.name: document for document in distinct_documents(function_documents(BFCL))}
            return tuple(islice(_admitted(documents.values()), count))


def _admitted(documents: Iterable[FunctionDocument]) -> Iterator[ToolDefinition]:
    for document in documents:
        # A few of them list values that are not of their type.
        with suppress(SchemaError):
            yield ToolDefinition(document.name, document.description, admit(document.parameters))


def _hard_tool(number: int) -> ToolDefinition:
    members = {
        f"{name}_{number}": _HARD[(number + at) % len(_HARD)] for at, name in enumerate(("first", "next", "last"))
    }
    schema = {"type": "object", "properties": members, "required": list(members)[:2], "$defs": {"node": _NODE}}
    return ToolDefinition(f"hard_{number}", "", admit(schema))


@cache
def vocabulary_named(name: str) -> Vocabulary:
    return vocabulary_of(read_metadata(SMALL_MODEL)) if name == "49k" else read_vocabulary(llama3_model())


@cache
def _tokenizer(name: str) -> llguidance.LLTokenizer:
    return llguidance.LLTokenizer(llguidance.TokenizerWrapper(VocabularyAdapter(vocabulary_named(name))))


def _matcher(vocabulary: str, lark: str) -> llguidance.LLMatcher:
    matcher = llguidance.LLMatcher(_tokenizer(vocabulary), llguidance.LLMatcher.grammar_from_lark(lark), log_level=0)
    assert not matcher.is_error(), matcher.get_error()[:300]
    return matcher


def _seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def _schema(request: Mapping[str, Any]) -> dict[str, Any]:
    """The schemas of tools, each as a grammar by itself: one tool on average."""
    tools = tools_of(request["tools"], request["count"])
    rules = [Rule(Value(tool.parameters, tool.parameters)) for tool in tools]
    clear_tool_caches()
    ours = _seconds(lambda: [emit_lark(rule) for rule in rules])
    texts = [emit_lark(rule) for rule in rules]
    bare = _seconds(lambda: [_matcher("49k", text) for text in texts])
    return {"ours": ours / len(tools), "bare": bare / len(tools)}


def _cold(request: Mapping[str, Any]) -> dict[str, Any]:
    """Tools to a compiled grammar, with every cache empty; with `added`, one tool more than the caches have."""
    kind, count, added = request["tools"], request["count"], request.get("added", 0)
    format, choice = get_format(request["format"]), CHOICES[request["choice"]]
    tools, vocabulary = tools_of(kind, count + added), vocabulary_named("49k")
    _tokenizer("49k")
    bind(format, tools[:1], choice)
    clear_tool_caches()
    if added:
        emit_lark(bind(format, tools[:count], choice), vocabulary.specials)
    started = time.process_time()
    lark = emit_lark(bind(format, tools, choice), vocabulary.specials)
    emitted = time.process_time()
    _matcher("49k", lark)
    compiled = time.process_time()
    return {"ours": compiled - started, "bare": compiled - emitted, "without": emitted - started}


def _warm(request: Mapping[str, Any]) -> dict[str, Any]:
    """A hit in the cache with its key known, and the making of a key."""
    tools = tools_of("sample", request["count"])
    cached: RuleCache = RuleCache()
    key = rule_key("hermes", tools, CHOICES["auto"], "lark")
    cached.get(key, lambda: "grammar")
    hit = _seconds(lambda: [cached.get(key, str) for _ in range(_HITS)]) / _HITS
    return {"ours": hit, "key": _seconds(lambda: rule_key("hermes", tools, CHOICES["auto"], "lark"))}


def _parse(request: Mapping[str, Any]) -> dict[str, Any]:
    """A reply of one call, parsed as it arrives, four characters at a time."""
    format, tools = get_format(request["format"]), tools_of("sample", 10)
    text = render(format, _reply(tools[:1]), tools)

    def parse() -> None:
        parser = Parser(format, tools)
        for at in range(0, len(text), 4):
            parser.feed(text[at : at + 4])
        parser.close()

    parse()
    return {"ours": _seconds(lambda: [parse() for _ in range(20)]) / 20}


def _mask(request: Mapping[str, Any]) -> dict[str, Any]:
    """Each step of a reply: our mask on an array of logits, llguidance's bits alone, and its own way to apply them.

    Each has a walk of its own, and writes fresh logits before a step, so that none finds what another left in memory.
    """
    name, format, tools = request["vocabulary"], get_format(request["format"]), tools_of("sample", 10)
    vocabulary = vocabulary_named(name)
    lark = emit_lark(bind(format, tools, CHOICES[request["choice"]]), vocabulary.specials)
    bits = allocate_token_bitmask(1, len(vocabulary))
    fresh = numpy.random.default_rng(0).standard_normal(len(vocabulary)).astype(numpy.float32)
    logits = fresh.copy()
    tokens = _tokens(vocabulary, render(format, _reply(tools[:2]), tools))

    def walk(mask: Callable[[], None], take: Callable[[int], bool]) -> list[float]:
        steps: list[float] = []
        for token in tokens:
            logits[:] = fresh
            started = time.perf_counter()
            mask()
            steps.append((time.perf_counter() - started) * 1e6)
            assert take(token)
        return steps

    def fill_and_apply() -> None:
        fill_next_token_bitmask(theirs, bits)
        apply_token_bitmask_inplace(logits, bits)

    state = _processor(name, request["format"], request["choice"]).start()
    alone, theirs = _start(name, lark).deep_copy(), _start(name, lark).deep_copy()
    return {
        "size": len(vocabulary),
        "ours": walk(lambda: state.mask(logits), state.advance),
        "bare": walk(lambda: fill_next_token_bitmask(alone, bits), alone.consume_token),
        "helper": walk(fill_and_apply, theirs.consume_token),
    }


@cache
def _processor(vocabulary: str, format: str, choice: str) -> LogitProcessor:
    return LogitProcessor(
        vocabulary_named(vocabulary), bind(get_format(format), tools_of("sample", 10), CHOICES[choice])
    )


@cache
def _start(vocabulary: str, lark: str) -> llguidance.LLMatcher:
    return _matcher(vocabulary, lark)


def _tokens(vocabulary: Vocabulary, text: str) -> list[int]:
    specials = [special for special in vocabulary.specials if special in text]
    pieces = re.split("(" + "|".join(map(re.escape, specials)) + ")", text) if specials else [text]
    plain = vocabulary.encode_greedily
    return [
        token
        for piece in pieces
        for token in ([vocabulary.specials[piece]] if piece in vocabulary.specials else plain(piece.encode()))
    ]


def _reply(tools: tuple[ToolDefinition, ...]) -> Reply:
    return Reply.of(*(ToolCall.of(tool.name, _value(tool.parameters)) for tool in tools))


def _value(schema: Mapping[str, Any]) -> Any:
    """A value of a sample tool's schema, with text in its strings."""
    if "enum" in schema:
        return schema["enum"][0]
    match schema["type"]:
        case "object":
            return {name: _value(inner) for name, inner in schema.get("properties", {}).items()}
        case "array":
            return [_value(schema["items"])] * 2
        case kind:
            return _VALUES[kind]


def _memory(request: Mapping[str, Any]) -> dict[str, Any]:
    """Bytes: the grammar's text, what Python keeps of it and its caches, and the process with a compiled grammar."""
    format, choice = get_format(request["format"]), CHOICES["auto"]
    tools = tools_of("sample", request["count"])
    bind(format, tools[:1], choice)
    clear_tool_caches()
    gc.collect()
    tracemalloc.start()
    lark = emit_lark(bind(format, tools, choice))
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    _matcher("49k", lark)
    gc.collect()
    before = _resident()
    compiled = [_matcher("49k", lark) for _ in range(3)]
    resident = (_resident() - before) / len(compiled)
    return {"ours": len(lark.encode()), "kept": kept, "bare": resident}


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * 4096


MEASURES: Final[Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    "schema": _schema,
    "cold": _cold,
    "warm": _warm,
    "parse": _parse,
    "mask": _mask,
    "memory": _memory,
}


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(MEASURES[request["measure"]](request)), flush=True)


if __name__ == "__main__":
    main()
