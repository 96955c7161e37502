"""Names and words: modules are nouns, public class names are unique, and retired phrases do not come back."""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from architecture.source_tree import ROOT

# Irregular participles and past forms. Regular ones end in -ed or -ing.
_IRREGULAR = """
begun borne bought broken brought built came caught chosen cut done drawn found gave given gone heard held hidden kept
known laid led left lent lost made meant met paid put ran said sang saw seen sent shown sold sought spelt spent spoken
stood struck stuck taken taught thought thrown told took torn understood went won wound written wrote
"""
# Nouns that only look like participles, and two adjectives of the field (distributed, shared).
_NOUNS = """
binding ceiling distributed docstring embed embedding encoding everything feed heading hoisting hosting listing logging
lowering mapping meaning need padding ping pricing reading rendering ring routing sampling seed setting shared shed
sibling speed spelling streaming string testing timing warning
"""
IRREGULAR, NOUNS = frozenset(_IRREGULAR.split()), frozenset(_NOUNS.split())
UNIQUE_CLASSES = ("server", "engines", "run")
PLACES = ("src", "docs", "console/src", "README.md", "AGENTS.md", "CONTRIBUTING.md", "SECURITY.md")
SUFFIXES = frozenset({".py", ".md", ".ts", ".tsx"})
# "leave" as a verb is fine: "leave it out", "leave the field empty".
_OBJECT = "it|them|this|that|these|those|the|a|an|out|off|open|behind|alone|over|empty|any|no|nothing|all|room|some"
_LEAVE = rf"leave\b(?! (?:{_OBJECT})\b)"
_BEFORE_LEAVE = r"with|without|for|needs?|needed|gives?|gave|given|asks?|asked|whose|no|any|the|this|of|its|\w+['’]s"
# A phrase that nobody outside the project understands, and what to write instead.
RETIRED = {
    "leave (for approval)": (
        rf"\b(?:{_BEFORE_LEAVE}) {_LEAVE}|\bleave (?:is|was|has) (?:given|asked|needed|used|not)\b"
        r"|\bleave (?:for|by) (?:a|an|each|every|this|that) \w+",
        "approval",
    ),
    "the world": (r"\bthe world\b", "side effects"),
    "whoever": (r"\b[Ww]ho(?:so)?ever\b", "name who it is: the client, the caller, the owner"),
    "is told, told of": (
        r"\b(?:is|are|was|were|be|been) told\b|\btold (?:of|about)\b|\btells? of\b",
        "say who reports what, and to whom",
    ),
    "goes on (with)": (
        r"\b(?:gone|goes|going|went|go) on(?: with)?\b(?! (?:the|a|an|top|disk|one|to)\b)",
        "continue, resume",
    ),
    "how it stands": (r"\bhow (?:it|each|they|things) stands?\b|\bit stands with\b", "status"),
    "wise": (r"(?<![-\w])(?:[Uu]n)?[Ww]ise\b", "say what goes wrong"),
    "may in": (r"\bwho may in\b|\bmay come in\b", "is admitted, is allowed"),
    "he, his, him": (
        r"\b(?:[Hh]e|[Hh]is|[Hh]im|[Hh]imself)\b",
        "you for the reader, it for software, they for other people",
    ),
    "door": (r"\b[Dd]oors?\b(?![-/])", "authentication, admission"),
    "house": (r"(?<![\"'/])\bhouse\b(?![-.])", "layout, architecture"),
    "room": (r"\b[Rr]ooms?\b", "package for code, space for bytes and tokens"),
    "in words": (r"\bin words\b", "as text, as a message"),
    "Of what": (r"(?:^|[.:;] |\"\"\")Of (?:what|which|whom)\b", "begin with the subject"),
    "marks (the noun)": (r"\b(?:the|its|their|these|those|own|special|of) marks\b", "markers, special tokens"),
    "wire text": (r"\bwire text\b", "raw model output"),
}


def is_participle(word: str) -> bool:
    if word in NOUNS:
        return False
    return word in IRREGULAR or (len(word) > 4 and word.endswith(("ed", "ing")))


@cache
def texts() -> dict[Path, str]:
    files = [path for place in PLACES for path in ([ROOT / place] if (ROOT / place).is_file() else _below(place))]
    return {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in files}


def _below(place: str) -> list[Path]:
    # The built console is not source.
    return [
        path
        for path in sorted((ROOT / place).rglob("*"))
        if path.suffix in SUFFIXES and not {"static", "node_modules"} & set(path.parts)
    ]


def test_no_module_is_named_by_a_participle() -> None:
    paths = [path for folder in ("src/ferrule", "lab") for path in sorted((ROOT / folder).rglob("*.py"))]
    broken = [str(path.relative_to(ROOT)) for path in paths if is_participle(path.stem.rpartition("_")[2].lower())]
    assert not broken, (
        f"{broken}: name a module by a noun for what is in it (lease.py has Lease); "
        f"a real noun that ends so goes into NOUNS of {__name__}"
    )


@pytest.mark.parametrize("package", UNIQUE_CLASSES)
def test_public_classes_of_a_package_have_different_names(package: str) -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "src" / "ferrule" / package).rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(path.relative_to(ROOT)))
    twice = [f"{name}: {', '.join(paths)}" for name, paths in homes.items() if len(paths) > 1]
    assert not twice, "\n  ".join(["", *twice, "rename one of them: one word for a thing, one thing for a word"])


@pytest.mark.parametrize("phrase", RETIRED)
def test_no_text_uses_a_retired_phrase(phrase: str) -> None:
    pattern, remedy = RETIRED[phrase]
    places = [
        f"{path}:{number}: {line.strip()[:110]}"
        for path, text in texts().items()
        for number, line in enumerate(text.splitlines(), start=1)
        if re.search(pattern, line)
    ]
    assert not places, "\n  ".join(["", *places, f"write instead: {remedy}"])


@pytest.mark.parametrize(
    "phrase, line",
    [
        ("leave (for approval)", "A call waits for leave."),
        ("leave (for approval)", "needs leave, and happens at most once"),
        ("the world", "a tool that changes the world"),
        ("whoever", "Whoever runs this gateway"),
        ("is told, told of", "An entry that cannot be used is told of"),
        ("goes on (with)", "then the same conversation is gone on with"),
        ("how it stands", "See how it stands with the MCP servers"),
        ("wise", "a rule makes a call valid, and not wise"),
        ("he, his, him", "who gave it and how long he took"),
        ("Of what", "Of what a tool raises, only the kind is shown."),
    ],
)
def test_the_search_finds_what_it_is_for(phrase: str, line: str) -> None:
    assert re.search(RETIRED[phrase][0], line)


@pytest.mark.parametrize(
    "line",
    [
        "Leave it out, or send true.",
        "leave the field empty",
        "otherwise nothing changes",
        "the request goes on the queue",
        "one of what the schema allows",
        "it marks the call as unknown",
    ],
)
def test_the_search_leaves_plain_english_alone(line: str) -> None:
    assert [phrase for phrase, (pattern, _) in RETIRED.items() if re.search(pattern, line)] == []


@pytest.mark.parametrize("word, expected", [("told", True), ("skipping", True), ("joined", True), ("string", False)])
def test_participles_are_told_from_nouns(word: str, expected: bool) -> None:
    assert is_participle(word) is expected
