"""Each format module is data only, names its models, and its examples parse and render as declared."""

from __future__ import annotations

import ast
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

from ferrule import Reply, ToolCall, fold
from ferrule.formats import all_formats, get_format, parse, render
from ferrule.wire import formats as families
from ferrule.wire.format import PARIS, Example
from ferrule.wire.parse_plan import plan_of
from ferrule.wire.parser import Parser
from ferrule.wire.registry import examples, families_of_formats
from ferrule.wire.renderer import is_same_part
from wire.weather import TOOLS

FORMATS = all_formats()
FAMILIES = families_of_formats()
EXAMPLES = examples()
CANONICAL = [example for example in EXAMPLES if example.is_canonical]
FILES = sorted(path for path in Path(families.__path__[0]).glob("*.py") if path.name != "__init__.py")


def is_expected(example: Example, actual: Reply) -> bool:
    with_ids = plan_of(FORMATS[example.format]).writes_ids
    expected = example.reply.parts
    return len(expected) == len(actual.parts) and all(
        is_same_part(a, b, with_ids) for a, b in zip(expected, actual.parts, strict=True)
    )


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.format} {example.text[:20]!r}")
def test_an_example_reads_as_the_reply_that_it_means_in_pieces_of_any_size(example: Example) -> None:
    for size in (len(example.text), 1, 2, 3, 7):
        parser = Parser(FORMATS[example.format], TOOLS)
        pieces = [example.text[start : start + size] for start in range(0, len(example.text), size)]
        events = [event for piece in pieces for event in parser.feed(piece)]
        reply = fold([*events, *parser.close()])
        assert is_expected(example, reply), (size, reply)


@pytest.mark.parametrize("example", CANONICAL, ids=lambda example: f"{example.format} {example.text[:20]!r}")
def test_a_canonical_example_is_what_the_format_writes(example: Example) -> None:
    assert render(FORMATS[example.format], example.reply, TOOLS) == example.text


def test_names_are_unique_over_all_families() -> None:
    counted = Counter(form.name for family in FAMILIES.values() for form in family)
    assert not [name for name, count in counted.items() if count > 1]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_has_an_example_and_its_examples_are_its_own(family: str) -> None:
    names = {example.format for example in import_module(f"{families.__name__}.{family}").EXAMPLES}
    assert names
    assert names <= {form.name for form in FAMILIES[family]}


def test_a_format_says_which_models_it_is_for_and_no_two_say_the_same() -> None:
    descriptions = [form.about.strip() for form in FORMATS.values()]
    assert all(descriptions)
    assert len(set(descriptions)) == len(descriptions)


def test_only_the_formats_for_every_model_have_no_markers() -> None:
    unmarked = {name for name, form in FORMATS.items() if not form.markers}
    assert unmarked == {"generic_xml"} | {form.name for form in FAMILIES["plain_json"]}


@pytest.mark.parametrize("name", FORMATS)
def test_markers_tokens_and_stops_are_texts_and_beaten_formats_exist(name: str) -> None:
    form = FORMATS[name]
    assert all((*form.markers, *form.tokens, *form.stops))
    assert set(form.beats) <= set(FORMATS) - {name}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_family_file_is_data_only(path: Path) -> None:
    module = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(module)
    statements = (ast.Expr, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.FunctionDef)
    assert all(isinstance(statement, statements) for statement in module.body)
    for node in ast.walk(module):
        assert not isinstance(node, UNWANTED), f"line {getattr(node, 'lineno', '?')}: {type(node).__name__}"
        if isinstance(node, ast.ImportFrom):
            assert node.module in PLAIN_IMPORTS or (node.module or "").startswith("ferrule."), node.module
        if isinstance(node, ast.FunctionDef):
            check_small(node)


UNWANTED = (
    ast.ClassDef, ast.AsyncFunctionDef, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.With, ast.Raise,
    ast.Global, ast.Yield, ast.Import, ast.If, ast.Match,
)  # fmt: skip
PLAIN_IMPORTS = {"__future__", "dataclasses"}
NODES = {"Calls", "Results", "Format", "Seq", "Node", "CallNode", "Fields", "Turn"}


def check_small(function: ast.FunctionDef) -> None:
    """A function names some nodes and returns one."""
    assert isinstance(function.returns, ast.Name)
    assert function.returns.id in NODES, f"{function.name} returns {function.returns.id}"
    assert all(isinstance(line, ast.Assign | ast.Expr | ast.Return) for line in function.body)
    assert (function.end_lineno or 0) - function.lineno < 60, f"{function.name} is long"


ARGUMENTS = '{"city": "Paris", "days": 2}'
HERMES_TEXT = f'<tool_call>\n{{"name": "get_weather", "arguments": {ARGUMENTS}}}\n</tool_call>'
MISTRAL_ARRAY = f'[TOOL_CALLS][{{"name": "get_weather", "arguments": {ARGUMENTS}, "id": "abcdefg00"}}]'
# The lines of the specification, and what each family writes to call get_weather(city="Paris", days=2).
SPECIFIED: dict[str, dict[str, str]] = {
    "F2": {
        "llama3": f'{{"name": "get_weather", "parameters": {ARGUMENTS}}}',
        "llama3_python_tag": f'<|python_tag|>{{"name": "get_weather", "parameters": {ARGUMENTS}}}',
    },
    "F3": {
        "mistral_v3": MISTRAL_ARRAY,
        "mistral_v7": MISTRAL_ARRAY,
        "mistral_v11": f"[TOOL_CALLS]get_weather[CALL_ID]abcdefg00[ARGS]{ARGUMENTS}",
        "mistral_v13": f"[TOOL_CALLS]get_weather[ARGS]{ARGUMENTS}",
    },
    "F4": {"hermes": HERMES_TEXT, "hermes_strict": HERMES_TEXT},
    "F5": {
        "generic_xml": f"<tool_call>\n<name>get_weather</name>\n<arguments>{ARGUMENTS}</arguments>\n</tool_call>",
    },
    "F6": {"hermes": HERMES_TEXT},
    "F7": {"pythonic": '[get_weather(city="Paris", days=2)]'},
    "F8": {"xlam": f'[{{"name": "get_weather", "arguments": {ARGUMENTS}}}]'},
    "F9": {
        "granite3": f'<|tool_call|>[{{"name": "get_weather", "arguments": {ARGUMENTS}}}]',
        "granite31": f'<tool_call>[{{"name": "get_weather", "arguments": {ARGUMENTS}}}]',
        "granite20b": f'<function_call> {{"name": "get_weather", "arguments": {ARGUMENTS}}}',
        "hermes": HERMES_TEXT,
    },
    "F10": {
        "gemma4": '<|tool_call>call:get_weather{city:<|"|>Paris<|"|>,days:2}<tool_call|>',
        "functiongemma": "<start_function_call>call:get_weather{city:<escape>Paris<escape>,days:2}<end_function_call>",
    },
    "F11": {
        "minicpm3": "<|tool_call_start|>\n```python\nget_weather(city='Paris',days=2)\n```\n<|tool_call_end|>\n",
        "minicpm5": '<function name="get_weather"><param name="city">Paris</param>'
        '<param name="days">2</param></function>',
    },
    "F12": {"bare_json": f'{{"name": "get_weather", "arguments": {ARGUMENTS}}}'},
    "F13": {"fenced_json": f'```json\n{{"name": "get_weather", "arguments": {ARGUMENTS}}}\n```'},
}


@pytest.mark.parametrize("id", SPECIFIED)
def test_each_family_that_the_specification_names_is_written_and_read(id: str) -> None:
    for name, text in SPECIFIED[id].items():
        form = get_format(name)
        call = ToolCall(form.ids.sample("get_weather", 0), PARIS.function)
        assert render(form, Reply.of(call), TOOLS) == text, name
        reply = parse(form, text, TOOLS)
        assert [parsed_call.function for parsed_call in reply.calls] == [PARIS.function], name
        assert not reply.diagnostics, name


def test_the_specifications_formats_are_all_looked_at() -> None:
    assert list(SPECIFIED) == [f"F{number}" for number in range(2, 14)]


def test_a_bare_array_is_read_fenced_or_not() -> None:
    text = SPECIFIED["F8"]["xlam"]
    for variant in (text, f"```json\n{text}\n```", f"```\n{text}\n```"):
        assert parse(get_format("xlam"), variant, TOOLS).calls[0].function == PARIS.function


def test_mistral_shows_its_tools_between_its_own_markers() -> None:
    shape = get_format("mistral_v3").declaration
    assert (shape.open, shape.close) == ("[AVAILABLE_TOOLS][", "][/AVAILABLE_TOOLS]")


def test_newlines_are_demanded_by_the_strict_variant_alone() -> None:
    squeezed = HERMES_TEXT.replace("\n", "")
    assert parse(get_format("hermes"), squeezed, TOOLS).calls
    assert not parse(get_format("hermes_strict"), squeezed, TOOLS).calls
