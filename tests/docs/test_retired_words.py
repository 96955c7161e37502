"""What a reader sees has no retired phrase: pages, `--help`, messages and hints, the console.

`tests/architecture/test_names.py` searches the source line by line. Here a text is searched as a reader sees it: a
paragraph, a help text or a message in one piece, also where its source breaks it over lines. `LABELS` are for such
texts only: in a comment, "at rest" or "look again" may have its plain meaning.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from architecture.test_names import RETIRED
from docs.pages import PAGES, ROOT
from ferrule.cli.main import command_line
from lab.pages.options import commands_of

# A phrase that readers should not meet, and what to write instead.
LABELS = {
    "leave to do something": (r"\b[Ll]eave to (?:act|call|change|do|proceed|run|send|use|write)\b", "approval"),
    "held back": (r"\b[Hh](?:eld|olds?|olding) back\b", "quarantined"),
    # Data may be encrypted at rest.
    "at rest": (r"(?<!encrypted )(?<!encryption )(?<!data )\b[Aa]t rest\b", "idle"),
    "Look again": (r"\b[Ll]ook again\b", "Refresh"),
    "What models pick": (r"\b[Ww]hat (?:the )?models? picks?\b", "Usage"),
    "Record: holds": (r"\b[Rr]ecord:? holds\b", "Audit log: verified"),
    # As a label it is alone in its element, string or cell. "Wire format" is a term of the field.
    "Wire": (r"""(?<=[>"'`*|])\s*Wire\s*(?=[<"'`*|])""", "Raw"),
    "Must call": (r"\bMust call\b", "Require a call"),
    "is waited for": (r"\b(?:is|are|was|were|be|been) waited for\b", "pending, waiting for approval"),
    "nothing fitting": (r"\bnothing fitting\b", "no valid call was produced"),
    "without a word": (r"\bwithout a word\b(?! (?:that|of|in)\b)", "silently"),
    "something went wrong": (r"\b[Ss]omething went wrong\b", "internal error (request ID ...)"),
    "does not say what it is on": (r"\bdoes not say what it is on\b", "say what is missing: needs a model path"),
    "learns the kind": (r"\blearns (?:only )?(?:the|its) kind\b", "sees only the type"),
    "lets go": (r"\b[Ll](?:ets?|etting) go\b", "say what is released, closed or lost"),
    "whoever asks": (r"\b(?:all|those|they|he|anybody) who asks?\b", "the client, the caller"),
    "old names of the API": (
        r"(?<![\w.])(?:ferrule\.)?(?:pick|lend|borrow)\(",
        "load_engine, export_tools, import_tools",
    ),
    "old names of classes": (
        r"\b(?:WatchedFront|Front|Door|Asked|Noted|Took|Dispatcher)\b(?=`|\()",
        "InstrumentedApp, Admission, Request, AnswerRecord, TurnResult, ToolExecutor",
    ),
}
PHRASES = RETIRED | LABELS


def paragraphs() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for part in re.split(r"\n\s*\n", page.read_text(encoding="utf-8")):
            yield str(page.relative_to(ROOT)), part


def help_texts() -> Iterator[tuple[str, str]]:
    parsers = [command_line()]
    for parser in parsers:
        yield f"{parser.prog} --help", parser.format_help()
        parsers.extend(inner for _, inner in commands_of(parser).values())


def messages() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "src" / "ferrule").rglob("*.py")):
        # A string of one word is data: a name, a code, a value of a schema.
        for text in strings_of(path.read_text(encoding="utf-8")):
            if " " in text:
                yield str(path.relative_to(ROOT)), text


def console_texts() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "console" / "src").rglob("*.ts*")):
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def strings_of(source: str) -> Iterator[str]:
    """The strings of a module except docstrings, each in one piece; `...` stands for a value that is filled in."""
    tree = ast.parse(source)
    passed = {
        id(child)
        for node in ast.walk(tree)
        for child in (
            node.values if isinstance(node, ast.JoinedStr) else [node.value] if isinstance(node, ast.Expr) else []
        )
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "..." for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in passed:
            yield node.value


@cache
def texts() -> list[tuple[str, str]]:
    sources = (paragraphs, help_texts, messages, console_texts)
    return [(place, " ".join(text.split())) for source in sources for place, text in source()]


def uses(phrase: str, text: str) -> list[str]:
    """The places of a retired phrase in a text, each with the words around it."""
    return [text[max(0, use.start() - 50) : use.end() + 50] for use in re.finditer(PHRASES[phrase][0], text)]


@pytest.mark.parametrize("phrase", PHRASES)
def test_no_reader_meets_a_retired_phrase(phrase: str) -> None:
    places = [f"{place}: {use}" for place, text in texts() for use in uses(phrase, text)]
    assert not places, "\n  ".join(["", *places, f"write instead: {PHRASES[phrase][1]}"])


def test_every_kind_of_text_is_searched() -> None:
    places = {place for place, _ in texts()}
    assert {
        "README.md",
        "docs/index.md",
        "ferrule --help",
        "ferrule approvals approve --help",
        "src/ferrule/errors.py",
        "console/src/app.tsx",
    } <= places


@pytest.mark.parametrize(
    "phrase, text",
    [
        ("leave to do something", "The tool has no leave to run."),
        ("leave (for approval)", "It waits for leave."),
        ("held back", "The answer is held back."),
        ("at rest", "The conversation is at rest."),
        ("Look again", '<Button text="Look again" />'),
        ("What models pick", "<h1>What models pick</h1>"),
        ("Record: holds", "Record: holds"),
        ("Wire", "<Tab>Wire</Tab>"),
        ("Wire", '"Wire"'),
        ("Must call", "<option>Must call</option>"),
        ("is waited for", "or that it is waited for"),
        ("nothing fitting", "nothing fitting came"),
        ("without a word", "Engines take many demands without a word and do not keep them."),
        ("something went wrong", "something went wrong here"),
        ("does not say what it is on", "'llama' does not say what it is on"),
        ("learns the kind", "of anything else it learns the kind"),
        ("lets go", "When an engine lets go"),
        ("whoever asks", "all who ask may bring some"),
        ("old names of the API", "engine = pick('llama:model.gguf')"),
        ("old names of classes", "the class `WatchedFront`"),
    ],
)
def test_the_search_finds_what_it_is_for(phrase: str, text: str) -> None:
    assert uses(phrase, text)


@pytest.mark.parametrize(
    "text",
    [
        "Leave out the field, or leave it to the caller.",
        "It runs without a question until you leave.",
        "The request leaves the loop.",
        "Tokens are encrypted at rest.",
        "A query without a word that any tool has finds nothing.",
        "The tools leave no process behind.",
        "A wire format is the text of one model family.",
        "the model must call a tool",
        "random.pick(tools)",
        "A call that waits for approval is pending.",
    ],
)
def test_the_search_allows_plain_english(text: str) -> None:
    assert [phrase for phrase in PHRASES if uses(phrase, text)] == []


def test_a_message_is_read_in_one_piece_and_docstrings_are_not_messages() -> None:
    source = '"""A module."""\nraise E(f"{x} is told " "of nothing", hint="Write " "it.")\n'
    assert sorted(strings_of(source)) == ["... is told of nothing", "Write it."]
