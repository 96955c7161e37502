"""What Ferrule does about a demand that an endpoint does not honour, in words. Must not ask the endpoint anything."""

from __future__ import annotations

from ferrule.engines.profile import Finding, Profile, Verdict, honoured_choices

_CHECKED = "every call is checked against the whole schema; one that does not fit is written again or not handed on"
# By the name of the probe, or by what stands before the colon in it.
ADVICE = {
    "calls": "calls are handed on where the model makes them; a larger model makes more",
    "required": "a demand for a call is refused before it is sent; an engine under a grammar (llama-server, vllm, "
    "sglang) can be held to it",
    "named": "no other tool is offered and a call is demanded, which needs 'required' to be honoured",
    "allowed": "only the allowed tools are offered",
    "none": "no tools are offered",
    "parallel off": "calls after the first are not handed on",
    "schema": _CHECKED,
    "strict": _CHECKED,
    "stream: argument deltas": "nothing is lost, but arguments come late",
    "stream: same as whole": "the engine can be asked without streaming (is_streamed=false)",
    "stream: ids": "an id is made where there is none, and the first that a call has counts",
    "stream: usage": "the reply has no count of tokens",
    "finish reason": "what was called decides how a reply ended, not the engine's word",
    "answer schema": "the answer is checked, and a diagnostic says where it does not fit",
    "answer schema beside tools": "the answer is checked, and a diagnostic says where it does not fit",
    "call beside an answer schema": "ask for calls and for an answer that fits a schema in separate requests",
    "bad schema refused": "every schema is checked before it is sent",
}


def advice_on(profile: Profile) -> list[str]:
    """A line for each thing to know; demands of one kind together, and at the end what may be believed."""
    wanting: dict[str, list[Finding]] = {}
    for finding in profile.findings:
        if finding.verdict is not Verdict.HONOURED:
            wanting.setdefault(_advice(finding.name), []).append(finding)
    lines = [
        f"{_listed(findings)} {'are' if len(findings) > 1 else 'is'} not honoured for certain: {advice}."
        for advice, findings in wanting.items()
    ]
    believed = ",".join(sorted(honoured_choices(profile)))
    closing = [f"Choices to believe: honours={believed}"]
    if profile.going_on is not None:
        closing.append(f"One more request on a text that was just read costs as much as {profile.going_on:.1f} tokens.")
    return [*(lines or ["Everything that was asked is honoured."]), *closing]


def _advice(name: str) -> str:
    return ADVICE.get(name) or ADVICE[name.partition(":")[0]]


def _listed(findings: list[Finding]) -> str:
    return ", ".join(f"{finding.name} ({finding.verdict.value})" for finding in findings)
