"""Compare with every chat template of a supported family: does it write calls and results as our format does?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ferrule.core.call import ToolResult
from ferrule.wire.format import Format
from ferrule.wire.registry import get_format
from ferrule.wire.renderer import arrange_parts, render, render_results
from lab.agreement.cases import CASES, TOOLS, AgreementCase, openai_results, openai_tools, openai_turn
from lab.agreement.rows import AgreementRow, AgreementVerdict, compare_texts
from lab.template_formats import TEMPLATES, Template
from lab.workers import Worker

_USER = {"role": "user", "content": "hi"}


def rows(worker: Worker) -> Iterator[AgreementRow]:
    for name, template in TEMPLATES.items():
        if template.format is None:
            continue
        form = get_format(template.format)
        for case in CASES:
            if _fits(template, form, case):
                yield _turn(worker, name, template, form, case)
        yield _results(worker, name, template, form)


def templates_without_format() -> Iterator[tuple[str, str]]:
    """The templates that are not compared, and why."""
    for name, template in TEMPLATES.items():
        if template.format is None:
            yield name, template.reason


def _fits(template: Template, form: Format, case: AgreementCase) -> bool:
    most = min(template.most_calls or 9, form.calls.max_calls or 9)
    return len(case.calls) <= most and (not case.text or template.keeps_text)


def _turn(worker: Worker, name: str, template: Template, form: Format, case: AgreementCase) -> AgreementRow:
    reply = arrange_parts(form, case.reply(form.ids))
    turn = openai_turn(reply, as_text=template.arguments_as_text, null_content=template.content_is_null)
    following = openai_results(reply) if template.needs_a_next_turn else []
    theirs = _render_template(worker, name, template, [_USER, turn, *following])
    opens = template.opens_text if case.text and template.opens_text is not None else template.opens
    ours = opens + render(form, reply, TOOLS) + template.ends
    if theirs is None:
        return AgreementRow("template", name, form.name, case.name, AgreementVerdict.DEPARTS, "the template raises")
    matching = ours if following and ours in theirs else theirs[-len(ours) :]
    return compare_texts("template", name, form.name, case.name, ours, matching, template.differs)


def _results(worker: Worker, name: str, template: Template, form: Format) -> AgreementRow:
    case = CASES[0] if (template.most_calls or form.calls.max_calls) == 1 else CASES[1]
    reply = case.reply(form.ids)
    turn = openai_turn(reply, as_text=template.arguments_as_text, null_content=template.content_is_null)
    answers = openai_results(reply)
    theirs = _render_template(worker, name, template, [_USER, turn, *answers])
    results = [ToolResult(answer["tool_call_id"], answer["name"], answer["content"]) for answer in answers]
    ours = render_results(form, results)
    if theirs is None:
        return AgreementRow("template", name, form.name, "results", AgreementVerdict.DEPARTS, "the template raises")
    # Some templates give each result its own turn, with the role's markers in between.
    agrees = ours in theirs or all(render_results(form, [one]) in theirs for one in results)
    matching = ours if agrees else theirs[-len(ours) - 60 :]
    return compare_texts("template", name, form.name, "results", ours, matching, template.results_differ)


def _render_template(worker: Worker, name: str, template: Template, messages: list[dict[str, Any]]) -> str | None:
    options = {"bos_token": "<s>", "eos_token": "</s>", **template.variables}
    tools = None if "tools" in template.variables else openai_tools()
    options.pop("tools", None)
    request = {"oracle": "templates", "op": "render", "template": name, "messages": messages, "tools": tools}
    answer = worker.ask({**request, "options": options})
    return None if answer["error"] else answer["text"]
