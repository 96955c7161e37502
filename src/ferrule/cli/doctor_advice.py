"""Explains how Ferrule handles an option that an endpoint does not honour. It sends no requests."""

from __future__ import annotations

from ferrule.engines.profile import Finding, Profile, Verdict, honoured_choices

_CHECKED = "every call is validated against the whole schema; an invalid call is generated again or rejected"
# By the name of the probe, or by the part before its colon.
ADVICE = {
    "calls": "calls are returned if the model makes them; a larger model makes more",
    "required": "tool_choice 'required' is refused before it is sent; an engine with a grammar (llama-server, vllm, "
    "sglang) can enforce it",
    "named": "only that tool is offered and a call is required, which needs 'required' to be honoured",
    "allowed": "only the allowed tools are offered",
    "none": "no tools are offered",
    "parallel off": "calls after the first are dropped",
    "schema": _CHECKED,
    "strict": _CHECKED,
    "stream: argument deltas": "nothing is lost, but arguments arrive late",
    "stream: same as whole": "you can disable streaming for the engine (is_streamed=false)",
    "stream: ids": "a missing id is generated, and the first id of a call counts",
    "stream: usage": "the reply has no count of tokens",
    "finish reason": "the finish reason is derived from the calls, not taken from the engine",
    "answer schema": "the answer is validated, and a diagnostic reports what does not match",
    "answer schema beside tools": "the answer is validated, and a diagnostic reports what does not match",
    "call beside an answer schema": "request calls and a structured answer in separate requests",
    "bad schema refused": "every schema is validated before it is sent",
}


def advice_on(profile: Profile) -> list[str]:
    """One line for each piece of advice, with its options; at the end the choices that can be relied on."""
    by_advice: dict[str, list[Finding]] = {}
    for finding in profile.findings:
        if finding.verdict is not Verdict.HONOURED:
            by_advice.setdefault(_advice(finding.name), []).append(finding)
    lines = [
        f"{_names_of(findings)} {'are' if len(findings) > 1 else 'is'} not reliably honoured: {advice}."
        for advice, findings in by_advice.items()
    ]
    honoured = ",".join(sorted(honoured_choices(profile)))
    closing = [f"Reliable choices: honours={honoured}"]
    if profile.continuation_cost is not None:
        closing.append(
            f"One more request on a text that was just read costs as much as {profile.continuation_cost:.1f} tokens."
        )
    return [*(lines or ["All tested options are honoured."]), *closing]


def _advice(name: str) -> str:
    return ADVICE.get(name) or ADVICE[name.partition(":")[0]]


def _names_of(findings: list[Finding]) -> str:
    return ", ".join(f"{finding.name} ({finding.verdict.value})" for finding in findings)
