"""The probe finds out what a template does to a conversation by rendering one."""

from __future__ import annotations

import pytest

from ferrule.formats import get_format
from ferrule.wire.template.chat_template import ChatTemplate
from ferrule.wire.template.probe import FaultKind, probe

HERMES = r"""
{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- for t in tools %}{{ t | tojson }}{% endfor %}
    {{- '<|im_end|>\n' }}
{%- endif %}
{%- for m in messages %}
    {{- '<|im_start|>' + m.role + '\n' }}
    {%- if m.role == 'tool' %}{{ '<tool_response>\n' + m.content + '\n</tool_response>' }}
    {%- else %}{{ m.content }}{% endif %}
    {%- for c in m.tool_calls or [] %}
        {{- '\n<tool_call>\n{"name": "' + c.function.name + '", "arguments": ' }}
        {{- c.function.arguments | tojson }}
        {{- '}\n</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\n' }}
{%- endfor %}"""
WRITES_ARGUMENTS = "c.function.arguments | tojson"
WRITES_CALLS = "m.tool_calls or []"
QWEN_XML = HERMES.partition("{{- '\\n<tool_call>")[0] + (
    "{{- '\\n<tool_call>\\n<function=' + c.function.name + '>\\n' }}"
    "{%- for k, v in c.function.arguments | items %}{{ '<parameter=' + k + '>\\n' }}VALUE{{ '\\n</parameter>\\n' }}"
    "{% endfor %}{{ '</function>\\n</tool_call>' }}{% endfor %}{{ '<|im_end|>\\n' }}{% endfor %}"
)
JSON_VALUE = "{% if v is string %}{{ v }}{% else %}{{ v | tojson }}{% endif %}"

# Each template, and the kinds of fault that it must be found to have.
DAMAGED = {
    "nothing": (HERMES, []),
    "drops calls": (HERMES.replace(WRITES_CALLS, "[]"), ["drops_calls"]),
    "writes the first call": (HERMES.replace(WRITES_CALLS, "(m.tool_calls or [])[:1]"), ["first_call_only"]),
    "writes Python": (HERMES.replace(WRITES_ARGUMENTS, "c.function.arguments"), ["python_repr"]),
    "quotes arguments": (HERMES.replace(WRITES_ARGUMENTS, "c.function.arguments | tojson | tojson"), []),
    "loses an argument": (
        HERMES.replace(WRITES_ARGUMENTS, "{'city': c.function.arguments.city} | tojson"),
        ["changes_arguments"],
    ),
    "writes numbers as text": (
        HERMES.replace(WRITES_ARGUMENTS, "c.function.arguments | tojson | replace('2', '\"2\"')"),
        ["changes_arguments"],
    ),
    "drops results": (HERMES.replace("'<tool_response>\\n' + m.content", "'<tool_response>\\n'"), ["drops_results"]),
    "shows no tools": (HERMES.replace("{{ t | tojson }}", "{{ t.function.name }}"), ["no_tools"]),
    "drops text": (
        HERMES.replace("{%- else %}{{ m.content }}", "{%- elif not m.tool_calls %}{{ m.content }}"),
        ["drops_text"],
    ),
    "drops calls beside text": (
        HERMES.replace(WRITES_CALLS, "((m.tool_calls or []) if not m.content else [])"),
        ["drops_calls"],
    ),
    "refuses two calls": (
        HERMES.replace(
            "{%- for c in",
            "{%- if m.tool_calls and m.tool_calls | length > 1 %}{{ raise_exception('one!') }}{% endif %}{%- for c in",
        ),
        ["refuses"],
    ),
    "refuses tools": ("{{ raise_exception('no tools here') }}", ["refuses"]),
    "has no tools": ("{% for m in messages %}{{ m.role + m.content }}{% endfor %}", ["no_tools", "drops_calls"]),
}


def faults(source: str, format: str = "hermes") -> dict[str, str]:
    return {fault.kind.value: fault.message for fault in probe(ChatTemplate(source), get_format(format))}


@pytest.mark.parametrize("source, expected", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_fault_is_found_and_nothing_else(source: str, expected: list[str]) -> None:
    by_kind = faults(source)
    assert list(by_kind) == expected
    assert all(message[0].isupper() and message.endswith(".") and "\n" not in message for message in by_kind.values())


def test_python_spelling_that_reads_back_as_the_same_values_is_no_fault() -> None:
    """Qwen's own templates write True and None; the parser knows, so the meaning is kept."""
    assert not faults(QWEN_XML.replace("VALUE", JSON_VALUE), "qwen_xml")
    assert not faults(QWEN_XML.replace("VALUE", "{{ v }}"), "qwen_xml")


def test_the_same_spelling_in_a_format_that_does_not_read_it_is_one() -> None:
    assert "Python" in faults(HERMES.replace(WRITES_ARGUMENTS, "c.function.arguments"))["python_repr"]


def test_a_format_that_the_template_does_not_write_is_noticed() -> None:
    assert list(faults(HERMES, "qwen_xml")) == ["changes_arguments"]


def test_the_fault_names_the_turns_that_lose_their_calls() -> None:
    some = HERMES.replace(WRITES_CALLS, "((m.tool_calls or []) if not m.content else [])")
    assert "that has text" in faults(some)["drops_calls"]
    null = HERMES.replace(WRITES_CALLS, "((m.tool_calls or []) if m.content is none else [])")
    assert "not null" in faults(null.replace("{{ m.content }}", "{{ m.content or '' }}"))["drops_calls"]
    assert "an assistant's turn" in faults(HERMES.replace(WRITES_CALLS, "[]"))["drops_calls"]


def test_a_refusal_quotes_the_templates_own_message() -> None:
    message = faults(DAMAGED["refuses two calls"][0])["refuses"]
    assert "two calls in one turn" in message
    assert "one!" in message


def test_variables_that_a_template_needs_can_be_given() -> None:
    source = HERMES.replace("m.content }}", "m.content + options.style }}", 1)
    template = ChatTemplate(source.replace("{{ t | tojson }}", "{{ t | tojson }}{{ options.style }}"))
    assert [fault.kind for fault in probe(template, get_format("hermes"))] == [FaultKind.REFUSES]
    assert not probe(template, get_format("hermes"), options={"style": ""})


def test_a_probe_gives_the_same_every_time() -> None:
    for source, _ in DAMAGED.values():
        assert faults(source) == faults(source)
