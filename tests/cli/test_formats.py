import pytest

from cli.command_line import run
from ferrule.cli.format_facts import facts_of
from ferrule.wire.parser import parse
from ferrule.wire.registry import all_formats, get_format

ENCODINGS = {
    "hermes": "JSON",
    "apertus": "JSON",
    "kimi_k2": "JSON",
    "qwen_xml": "tagged",
    "minimax_m2": "tagged",
    "dsml_v4": "typed tags",
    "pythonic": "Python",
    "olmo3": "Python",
    "gemma4": "typed literal",
}


def test_the_list_has_every_format_with_its_facts() -> None:
    listed = run("formats", "--json").json
    assert [entry["name"] for entry in listed] == list(all_formats())
    hermes = next(entry for entry in listed if entry["name"] == "hermes")
    assert hermes == {
        "name": "hermes",
        "family": "hermes",
        "about": get_format("hermes").about,
        "arguments": "JSON",
        "reasoning": True,
        "ids": "any",
        "writes_ids": False,
        "markers": list(get_format("hermes").markers),
    }


@pytest.mark.parametrize("name, encoding", ENCODINGS.items())
def test_the_argument_encoding_is_read_off_the_nodes(name: str, encoding: str) -> None:
    assert facts_of(get_format(name)).arguments == encoding


def test_piped_output_is_aligned_text_with_one_line_per_format() -> None:
    ran = run("formats")
    heading, *rows = ran.out.splitlines()
    assert "\x1b" not in ran.out
    assert [row.split()[0] for row in rows] == list(all_formats())
    start = heading.index("ARGUMENTS")
    assert all(row[start - 1] == " " and row[start] != " " for row in rows)


@pytest.mark.parametrize("columns", [80, 120])
def test_on_a_terminal_the_table_fits_and_cuts_no_name(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "dumb")
    ran = run("formats", on_terminal=True)
    lines = ran.out.splitlines()
    assert max(map(len, lines)) <= columns
    assert set(all_formats()) <= {line.split()[0] for line in lines if line.strip()}
    assert "…" not in ran.out


def test_colours_come_on_a_terminal_unless_they_are_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1;36m" in run("formats", on_terminal=True).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[1;36m" not in run("formats", on_terminal=True).out


@pytest.mark.parametrize("name", all_formats())
def test_the_page_of_a_format_shows_as_many_calls_as_it_takes_up_to_two(name: str) -> None:
    page = run("formats", name, "--json").json
    form = get_format(name)
    calls = parse(form, page["example"]).calls
    assert len(calls) == min(2, form.calls.max_calls or 2)
    assert "get_weather" in page["declaration"]
    assert "21" in page["results"]


def test_the_ids_in_the_results_are_those_of_the_calls() -> None:
    for name in ("mistral_v7", "kimi_k2", "mistral_v11"):
        page = run("formats", name, "--json").json
        for call in parse(get_format(name), page["example"]).calls:
            assert call.id in page["results"]


def test_the_example_of_a_format_is_the_same_every_time() -> None:
    for name in all_formats():
        first, second = run("formats", name, "--json").json, run("formats", name, "--json").json
        assert (first["example"], first["results"]) == (second["example"], second["results"])


@pytest.mark.parametrize("on_terminal", [False, True])
def test_the_page_keeps_brackets_that_look_like_styles(on_terminal: bool) -> None:
    out = run("formats", "mistral_v3", on_terminal=on_terminal).out
    assert '[TOOL_CALLS][{"name": "get_weather"' in out
    assert "[TOOL_RESULTS]" in out


def test_several_names_show_a_preset() -> None:
    assert run("formats", "hermes,qwen_xml", "--json").json["name"] == "hermes,qwen_xml"
