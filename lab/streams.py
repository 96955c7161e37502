"""Question 1: is a streamed reply parsed the same wherever it is split, and is it parsed correctly?

Every text of the corpus goes through vLLM's, SGLang's and our parser, whole and in chunks. A run differs if the stream
gives a different result than the same parser gives for the whole text, and is wrong if it is not the expected reply.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from ferrule.bench.tables import Table
from ferrule.wire.registry import all_formats
from lab import own_parser
from lab.corpus import CASES, CHUNKINGS, FAMILIES, TOOLS, CorpusCase, Family
from lab.peers.outcome import Outcome
from lab.verdict import canonical_outcome, expected_reply
from lab.workers import Worker

Stream = Callable[[Sequence[str]], Mapping[str, Any]]
Batch = Callable[[str], Mapping[str, Any]]
Advance = Callable[[str], None]

ENGINES: Final = ("vllm", "sglang", "ours")
NAMES: Final = {"vllm": "vLLM", "sglang": "SGLang", "ours": "Ferrule"}
STEPS: Final = len(FAMILIES)
_COUNTS: Final = ("runs", "mismatching", "wrong", "texts", "whole_wrong")
_ONE_CHARACTER: Final = "1 character"


def measure(others: Worker, advance: Advance) -> dict[str, Any]:
    """Return the counts by family and engine, and every run that was not correct."""
    rows: list[dict[str, Any]] = []
    left_out: list[str] = []
    faults: list[dict[str, Any]] = []
    for family in FAMILIES:
        advance(family.name)
        if family.format not in all_formats():
            left_out.append(family.name)
            continue
        row: dict[str, Any] = {"family": family.name, "format": family.format}
        for engine in ENGINES:
            row[engine] = _count_runs(engine, family, others, faults)
        rows.append(row)
    return {"rows": rows, "left_out": left_out, "faults": faults}


def _count_runs(engine: str, family: Family, others: Worker, faults: list[dict[str, Any]]) -> dict[str, int] | None:
    parsers = _parsers(engine, family, others)
    if parsers is None:
        return None
    batch, stream = parsers
    count: dict[str, int] = dict.fromkeys(_COUNTS, 0)
    for case in CASES:
        expected = expected_reply(family.text_of(case), case.calls)
        text = family.render(case)
        whole = canonical_outcome(batch(text))
        count["texts"] += 1
        count["whole_wrong"] += whole != expected
        if whole != expected:
            faults.append(_fault(engine, family, case, "whole text", "wrong", str(whole)))
        for cut, chunks in _cuts(engine, family, case):
            streamed = canonical_outcome(stream(chunks))
            count["runs"] += 1
            count["mismatching"] += streamed != whole
            count["wrong"] += streamed != expected
            kinds = [kind for kind, at_fault in (("mismatch", streamed != whole), ("wrong", streamed != expected))
                     if at_fault]  # fmt: skip
            if kinds:
                faults.append(_fault(engine, family, case, cut, " and ".join(kinds), str(streamed)))
    return count


def _parsers(engine: str, family: Family, others: Worker) -> tuple[Batch, Stream] | None:
    if engine == "ours":
        form, tools = all_formats()[family.format], own_parser.definitions(TOOLS)

        def own(chunks: Sequence[str]) -> Outcome:
            return own_parser.stream(form, chunks, tools)

        return lambda text: own([text]), own
    parser = {"vllm": family.vllm, "sglang": family.sglang}[engine]
    if parser is None:
        return None
    request = {"engine": engine, "parser": parser, "tools": list(TOOLS)}
    return (
        lambda text: others.ask({**request, "mode": "batch", "text": text}),
        lambda chunks: others.ask({**request, "mode": "stream", "chunks": list(chunks)}),
    )


def _cuts(engine: str, family: Family, case: CorpusCase) -> Iterable[tuple[str, list[str]]]:
    for tokens in CHUNKINGS:
        yield (f"{tokens} tokens" if tokens else "one chunk"), family.chunks(case, tokens)
    if engine == "ours":
        yield _ONE_CHARACTER, list(family.render(case))


def _fault(engine: str, family: Family, case: CorpusCase, cut: str, kind: str, actual: str) -> dict[str, Any]:
    return {
        **{"engine": engine, "family": family.name, "case": case.name, "cut": cut, "kind": kind},
        **{"text": family.render(case), "got": actual},
    }


def tables(result: Mapping[str, Any]) -> list[Table]:
    rows = [[row["family"], *(cell for engine in ENGINES for cell in _cells(row[engine]))] for row in result["rows"]]
    totals = [cell for engine in ENGINES for cell in _cells(_total(result["rows"], engine))]
    left_out = result["left_out"]
    columns = [f"{NAMES[engine]} {what}" for engine in ENGINES for what in ("differs", "wrong", "whole")]
    return [
        Table(
            "Stream against whole text",
            "Every text of the corpus (one call, text and two calls, hard values, no arguments) in chunks of 1, 2, 4 "
            "and 8 tokens and in one; ours also a character at a time. *Differs*: runs whose result is not what the "
            "same parser gives for the whole text. *Wrong*: runs whose result is not the expected reply. *Whole*: "
            "texts that are parsed incorrectly even as a whole. A dash: the engine has no parser for the format.",
            ("format", *columns),
            [*rows, ["total", *totals]],
            [f"Not included, because Ferrule has no format for them: {', '.join(left_out)}."] if left_out else [],
        )
    ]  # fmt: skip


def _cells(count: Mapping[str, int] | None) -> list[str]:
    if not count:
        return ["-"] * 3
    pairs = (("mismatching", "runs"), ("wrong", "runs"), ("whole_wrong", "texts"))
    return [f"{count[part]}/{count[whole]}" for part, whole in pairs]


def _total(rows: Sequence[Mapping[str, Any]], engine: str) -> dict[str, int]:
    counts = [row[engine] for row in rows if row[engine]]
    return {key: sum(count[key] for count in counts) for key in _COUNTS}
