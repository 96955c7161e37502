"""Every chat template of a covered family: does it write a turn of calls, and their results, as our format does?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ferrule.core.call import ToolResult
from ferrule.wire.format import Format
from ferrule.wire.part_order import arranged
from ferrule.wire.registry import get_format
from ferrule.wire.renderer import render, render_results
from lab.agreement.cases import CASES, TOOLS, Case, openai_results, openai_tools, openai_turn
from lab.agreement.rows import Row, Verdict, judged
from lab.template_formats import TEMPLATES, Template
from lab.workers import Worker

_USER = {"role": "user", "content": "hi"}


def rows(worker: Worker) -> Iterator[Row]:
    for name, template in TEMPLATES.items():
        if template.format is None:
            continue
        form = get_format(template.format)
        for case in CASES:
            if _fits(template, form, case):
                yield _turn(worker, name, template, form, case)
        yield _results(worker, name, template, form)


def uncovered() -> Iterator[tuple[str, str]]:
    """The templates that are not compared, and why."""
    for name, template in TEMPLATES.items():
        if template.format is None:
            yield name, template.reason


def _fits(template: Template, form: Format, case: Case) -> bool:
    most = min(template.most_calls or 9, form.calls.max_calls or 9)
    return len(case.calls) <= most and (not case.text or template.keeps_text)


def _turn(worker: Worker, name: str, template: Template, form: Format, case: Case) -> Row:
    reply = arranged(form, case.reply(form.ids))
    turn = openai_turn(reply, as_text=template.arguments_as_text, null_content=template.content_is_null)
    following = openai_results(reply) if template.needs_a_next_turn else []
    theirs = _rendered(worker, name, template, [_USER, turn, *following])
    opens = template.opens_text if case.text and template.opens_text is not None else template.opens
    ours = opens + render(form, reply, TOOLS) + template.ends
    if theirs is None:
        return Row("template", name, form.name, case.name, Verdict.DEPARTS, "the template raises")
    found = ours if following and ours in theirs else theirs[-len(ours) :]
    return judged("template", name, form.name, case.name, ours, found, template.differs)


def _results(worker: Worker, name: str, template: Template, form: Format) -> Row:
    case = CASES[0] if (template.most_calls or form.calls.max_calls) == 1 else CASES[1]
    reply = case.reply(form.ids)
    turn = openai_turn(reply, as_text=template.arguments_as_text, null_content=template.content_is_null)
    answers = openai_results(reply)
    theirs = _rendered(worker, name, template, [_USER, turn, *answers])
    given = [ToolResult(answer["tool_call_id"], answer["name"], answer["content"]) for answer in answers]
    ours = render_results(form, given)
    if theirs is None:
        return Row("template", name, form.name, "results", Verdict.DEPARTS, "the template raises")
    # Some templates give each result a turn of its own, with the role's marks between them.
    agrees = ours in theirs or all(render_results(form, [one]) in theirs for one in given)
    found = ours if agrees else theirs[-len(ours) - 60 :]
    return judged("template", name, form.name, "results", ours, found, template.results_differ)


def _rendered(worker: Worker, name: str, template: Template, messages: list[dict[str, Any]]) -> str | None:
    options = {"bos_token": "<s>", "eos_token": "</s>", **template.variables}
    tools = None if "tools" in template.variables else openai_tools()
    options.pop("tools", None)
    asked = {"oracle": "templates", "op": "render", "template": name, "messages": messages, "tools": tools}
    answer = worker.ask({**asked, "options": options})
    return None if answer["error"] else answer["text"]
