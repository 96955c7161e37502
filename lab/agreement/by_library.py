"""Compare with the vendors' own libraries: do they render what we render, and parse it to the same calls?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ferrule.core.call import ToolResult
from ferrule.core.json_text import canonical, loads
from ferrule.core.reply import Reply
from ferrule.wire.registry import get_format
from ferrule.wire.renderer import render, render_results
from lab.agreement.cases import CASES, TOOLS, openai_results, openai_tools, openai_turn
from lab.agreement.rows import AgreementRow, compare_texts
from lab.workers import Worker

_USER = {"role": "user", "content": "hi"}
_MISTRAL = {"v3": "mistral_v3", "v7": "mistral_v7", "v11": "mistral_v11", "v13": "mistral_v13"}
_COHERE = {"cmd3": "cohere_action", "cmd4": "cohere_action_cmd4"}


def mistral_rows(worker: Worker) -> Iterator[AgreementRow]:
    """mistral_common: whole conversations, which must contain our turn and our results unchanged."""
    for version, name in _MISTRAL.items():
        form = get_format(name)
        for case in CASES:
            if case.text and version == "v3":
                continue  # It refuses text together with calls.
            reply = case.reply(form.ids)
            messages = [_USER, openai_turn(reply, as_text=True), *openai_results(reply)]
            theirs = _text(worker, {"oracle": "mistral", "op": "render", "version": version, "messages": messages})
            turn, answers = render(form, reply, TOOLS), render_results(form, _results(reply))
            start = theirs.rfind("[/INST]") + len("[/INST]")
            ours = f"{turn}</s>{answers}"
            yield compare_texts("mistral_common", version, name, case.name, ours, theirs[start:])


def harmony_rows(worker: Worker) -> Iterator[AgreementRow]:
    """oss-harmony: it renders as we do, and parses what we render."""
    form = get_format("harmony")
    for case in CASES:
        reply = case.reply(form.ids)
        messages = [_USER, openai_turn(reply, as_text=True), *openai_results(reply)]
        theirs = _text(worker, {"oracle": "harmony", "op": "render", "messages": messages})
        ours = "<|start|>assistant" + render(form, reply, TOOLS) + render_results(form, _results(reply))
        yield compare_texts("oss-harmony", "render", form.name, case.name, ours, theirs[-len(ours) :])
        parsed = worker.ask({"oracle": "harmony", "op": "parse", "text": render(form, reply, TOOLS)})
        yield compare_texts(
            "oss-harmony", "parse", form.name, case.name, _canonical_calls(reply), _harmony_calls(parsed)
        )


def cohere_rows(worker: Worker) -> Iterator[AgreementRow]:
    """cohere_melody: it parses what we render, and its rendering contains our turn."""
    for version, name in _COHERE.items():
        form = get_format(name)
        for case in CASES:
            if case.text:
                continue  # Command models answer or act, never both in one turn.
            reply = case.reply(form.ids)
            ours = render(form, reply, TOOLS)
            parsed = worker.ask({"oracle": "melody", "op": "parse", "version": version, "text": ours})
            known_difference = "reads {} as an empty text" if case.name == "no arguments" else ""
            yield compare_texts(
                "cohere_melody",
                f"{version} parse",
                name,
                case.name,
                _canonical_calls(reply),
                _parsed_calls(parsed),
                known_difference,
            )
            messages = [_USER, openai_turn(reply, as_text=True), *openai_results(reply)]
            request = {"oracle": "melody", "op": "render", "version": version, "messages": messages}
            theirs = _text(worker, {**request, "tools": openai_tools()})
            matching = ours if ours in theirs else theirs[-len(ours) - 400 :]
            yield compare_texts("cohere_melody", f"{version} render", name, case.name, ours, matching)


def qwen_rows(worker: Worker) -> Iterator[AgreementRow]:
    """qwen_agent: its prompt contains our turn, and it parses what we render."""
    form = get_format("hermes")
    for case in CASES:
        reply = case.reply(form.ids)
        ours = render(form, reply, TOOLS)
        messages = [_USER, openai_turn(reply, as_text=True), *openai_results(reply)]
        request = {"oracle": "qwen_agent", "op": "render", "messages": messages, "tools": openai_tools()}
        turns: list[dict[str, str]] = worker.ask(request).get("turns") or []
        theirs = next((turn["text"] for turn in turns if turn["role"] == "assistant"), "")
        known_difference = "puts no newline between text and calls" if case.text else ""
        yield compare_texts("qwen_agent", "render", form.name, case.name, ours, theirs.strip("\n"), known_difference)
        parsed = worker.ask({"oracle": "qwen_agent", "op": "parse", "text": ours})
        yield compare_texts("qwen_agent", "parse", form.name, case.name, _canonical_calls(reply), _parsed_calls(parsed))


def _text(worker: Worker, request: dict[str, Any]) -> str:
    answer = worker.ask({"tools": openai_tools(), **request})
    return answer.get("text") or f"error: {answer['error']}"


def _results(reply: Reply) -> list[ToolResult]:
    return [ToolResult(a["tool_call_id"], a["name"], a["content"]) for a in openai_results(reply)]


def _canonical_calls(reply: Reply) -> str:
    return canonical([[call.name, call.arguments] for call in reply.calls])


def _parsed_calls(parsed: dict[str, Any]) -> str:
    if parsed["error"]:
        return f"error: {parsed['error']}"
    return canonical([[call["name"], _value(call["arguments"])] for call in parsed["calls"]])


def _harmony_calls(parsed: dict[str, Any]) -> str:
    if parsed["error"]:
        return f"error: {parsed['error']}"
    calls = [message for message in parsed["messages"] if message["recipient"]]
    return canonical([[m["recipient"].removeprefix("functions."), _value(m["text"])] for m in calls])


def _value(text: str) -> object:
    try:
        return loads(text)
    except ValueError:
        return text
