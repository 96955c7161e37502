"""Question 3: what does parsing cost per character, and is it the same in a long reply as in a short one?

One call with one string argument, source code of 1 kB, 100 kB and 1 MB, arrives four characters at a time. Seconds are
CPU time of parsing and of joining the deltas, without the model, the engine or the network.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Final

from ferrule.bench.tables import Table
from ferrule.wire.registry import all_formats
from lab import own_parser
from lab.corpus import FAMILIES, Family
from lab.paths import CACHE
from lab.reply_variants import SPELLINGS
from lab.verdict import difference
from lab.workers import Worker

Advance = Callable[[str], None]

FORMATS: Final = (
    *("hermes", "qwen_xml", "llama3", "mistral_v13", "glm47", "deepseek_v31", "kimi_k2", "dsml_v4", "pythonic"),
)
SIZES: Final = (1_000, 100_000, 1_000_000)
CHARACTERS: Final = 4
LIMIT: Final = 60
SKIP_AFTER: Final = 20
LEAST_SECONDS: Final = 0.05
ROUNDS: Final = 3
ENGINES: Final = ("ours", "vllm", "sglang")
NAMES: Final = {"vllm": "vLLM", "sglang": "SGLang", "ours": "Ferrule"}
STEPS: Final = len(FORMATS) * len(SIZES) * len(ENGINES)
TOOLS: Final[tuple[dict[str, Any], ...]] = (
    {
        "type": "function",
        "function": {
            "name": "write_file",
            "description": "Write a file.",
            "parameters": {
                "type": "object",
                "properties": {"content": {"type": "string"}},
                "required": ["content"],
            },
        },
    },
)
_LINES: Final = (
    'def page_{n}(title: str, items: list[str]) -> str:\n    """Item {n}: the page\'s HTML."""\n',
    '    rows = "\\n".join(f"<li class=\'row-{n}\'>{{item}}</li>" for item in items if item != "")\n',
    '    return f"<html><head><title>{{title}} & more</title></head><body><ul>{{rows}}</ul></body></html>"\n\n\n',
    "if __name__ == '__main__':\n\tprint(page_{n}(\"Größe {n}\", ['a, b', \"c = {{d}}\"]))  # 100% [done]; see https://example.org/{n}\n\n",
)


def source_code(length: int) -> str:
    """Text like that of a coding agent, with newlines, both quotes, backslashes, braces and tags."""
    pieces: list[str] = []
    size = 0
    for number in count():
        for line in _LINES:
            piece = line.replace("{{", "{").replace("}}", "}").replace("{n}", str(number))
            pieces.append(piece)
            size += len(piece)
        if size >= length:
            return "".join(pieces)[:length]
    raise AssertionError("unreachable")


def timed_peers() -> Worker:
    interpreter = CACHE / "venvs" / "others" / "bin" / "python"
    return Worker(interpreter, "lab.peers.timed_worker", hint="run scripts/setup-oracles --others")


def measure(timed: Worker, advance: Advance) -> dict[str, Any]:
    families = {family.name: family for family in FAMILIES}
    rows: list[dict[str, Any]] = []
    for name in FORMATS:
        family = families[name]
        for engine in ENGINES:
            previous: dict[str, Any] | None = None
            for size in SIZES:
                advance(f"{name}, {NAMES[engine]}, {size // 1000} kB")
                previous = _measure_one(engine, family, size, timed, previous)
                rows.append({"format": name, "engine": engine, "size": size, **previous})
    return {"rows": rows}


def _measure_one(
    engine: str, family: Family, size: int, timed: Worker, previous: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Measure the seconds per character, or give the reason why there is no result."""
    if engine != "ours" and previous and (not previous["seconds"] or previous["seconds"] > SKIP_AFTER):
        return {"seconds": None, "per_character": None, "problem": "not tried"}
    content = source_code(size)
    text = SPELLINGS[family.name]("", [("write_file", {"content": content})])
    run = _own(family, text) if engine == "ours" else _other(engine, family, text, timed)
    seconds, outcome = run(1)
    if outcome["error"]:
        slow = outcome["error"].startswith("TooSlow")
        return {"seconds": None, "per_character": None, "problem": f"over {LIMIT} s" if slow else outcome["error"]}
    wrong = difference([("write_file", {"content": content})], outcome)
    repeat = max(1, round(1.2 * LEAST_SECONDS / seconds + 0.5))
    rounds = ROUNDS if engine == "ours" or repeat > 1 else 1
    best = min([run(repeat)[0] / repeat for _ in range(rounds)]) if rounds > 1 else seconds
    return {"seconds": best, "per_character": best / len(text), "problem": f"wrong: {wrong}" if wrong else ""}


Run = Callable[[int], tuple[float, Mapping[str, Any]]]


def _own(family: Family, text: str) -> Run:
    form, tools = all_formats()[family.format], own_parser.definitions(TOOLS)
    chunks = [text[start : start + CHARACTERS] for start in range(0, len(text), CHARACTERS)]

    def run(repeat: int) -> tuple[float, Mapping[str, Any]]:
        started = time.process_time()
        for _ in range(repeat - 1):
            own_parser.read(form, chunks, tools)
        reply = own_parser.read(form, chunks, tools)
        return time.process_time() - started, own_parser.outcome(reply)

    return run


def _other(engine: str, family: Family, text: str, timed: Worker) -> Run:
    request = {
        **{"engine": engine, "parser": {"vllm": family.vllm, "sglang": family.sglang}[engine], "text": text},
        **{"specials": family.specials, "characters": CHARACTERS, "tools": list(TOOLS), "limit": LIMIT},
    }

    def run(repeat: int) -> tuple[float, Mapping[str, Any]]:
        answer = timed.ask({**request, "repeat": repeat})
        return answer["seconds"], answer

    return run


def tables(result: Mapping[str, Any]) -> list[Table]:
    cells = {(row["format"], row["engine"], row["size"]): row for row in result["rows"]}
    rows = [[name, *(_cell(cells[name, engine, size]) for engine in ENGINES for size in SIZES),
             *_ratios(cells, name)] for name in FORMATS]  # fmt: skip
    sizes = [f"{NAMES[engine]} {_size(size)}" for engine in ENGINES for size in SIZES]
    notes = [f"{row['format']}, {NAMES[row['engine']]}, {_size(row['size'])}: the result is not the expected call."
             for row in result["rows"] if row["problem"].startswith("wrong")]  # fmt: skip
    return [
        Table(
            "Cost of a character",
            "Microseconds of CPU per character of the reply, which contains one call with one string argument of the "
            f"given size and arrives {CHARACTERS} characters at a time. For vLLM and SGLang, special tokens arrive "
            f"whole and other text in prepared tokens of {CHARACTERS} characters. Each measurement was stopped after "
            f"{LIMIT} s; 1 MB was not tried if 100 kB took more than {SKIP_AFTER} s. *Growth* is ours at 1 MB divided "
            "by ours at 1 kB. *Times ours* is theirs divided by ours at 100 kB.",
            ("format", *sizes, "growth", "vLLM times ours", "SGLang times ours"),
            rows,
            notes,
        )
    ]


def _size(size: int) -> str:
    return f"{size // 1_000_000} MB" if size >= 1_000_000 else f"{size // 1_000} kB"


def _cell(row: Mapping[str, Any]) -> str:
    text = row["problem"] if row["per_character"] is None else f"{row['per_character'] * 1e6:.3g}"
    return text + (" (wrong)" if row["problem"].startswith("wrong") else "")


def _ratios(cells: Mapping[tuple[str, str, int], Mapping[str, Any]], name: str) -> list[str]:
    small, middle, large = SIZES
    pairs: Sequence[tuple[tuple[str, int], tuple[str, int]]] = (
        (("ours", large), ("ours", small)),
        (("vllm", middle), ("ours", middle)),
        (("sglang", middle), ("ours", middle)),
    )
    ratios: list[str] = []
    for above, below in pairs:
        over, under = cells[name, *above]["per_character"], cells[name, *below]["per_character"]
        ratios.append(f"{over / under:.3g}" if over and under else "-")
    return ratios
