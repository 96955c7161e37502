"""Generate the page of cloud providers, `docs/reference/providers.md`."""

from __future__ import annotations

from collections.abc import Iterator

from ferrule.core.forward import ForwardApi
from ferrule.core.json_text import dumps
from ferrule.engines.engine import ALL_CHOICES
from ferrule.engines.providers import PROVIDERS, Provider
from lab.pages.markdown import code, lines, table

_HEAD = """# Cloud providers

Generated from `PROVIDERS` in `src/ferrule/engines/providers.py` by `scripts/docs --pages`; a test checks that it is
current.

These providers have OpenAI's chat API, each with differences. The name before the colon is the provider, the text
after it is the provider's name for the model:

```python
from ferrule import load_engine

engine = load_engine("openrouter:qwen/qwen3-coder", key="...")
```

```toml
[engines.cloud]
use = "mistral:mistral-large-latest"
key = "${MISTRAL_API_KEY}"
```

**What was tested: recorded shapes only.** The facts are from the providers' public documentation, read in November
2026. The tests answer with the documented shapes of streams and errors, with texts of our own. Ferrule was not run
against the services themselves, so a provider may differ. Run [the doctor](../how-to/doctor.md) against your model
first.

No provider generates under Ferrule's grammars: calls are validated and repaired, and the receipt says so. A kind of
`tool_choice` that a provider does not document is expressed by the tools that are offered to the model. The key of the
environment is sent to the provider's own addresses only; with another `url` you pass `key` yourself. The options are
those of `openai:`: `url`, `key`, `strict`, `reasoning`, `media`, `repairs` and the timeouts.

## Addresses and keys

"""
_FACTS = """
## What each takes

"Options" are those of a client's request that Ferrule only hands on, where they are documented.
"Not sent" are fields of a request that the API does not have; a diagnostic of the answer names them.

"""
_NOTES = """
## Differences

"""


def providers_page() -> str:
    return "".join(
        (
            _HEAD,
            table(("engine", "address", "key", "header", "facts from"), _address_rows()),
            _FACTS,
            table(
                ("engine", "tool_choice", "one call only", "strict", "token limit", "options", "not sent", "forwards"),
                _fact_rows(),
            ),
            _NOTES,
            table(("engine", "in the body", "note"), _difference_rows()),
        )
    )


def _address_rows() -> Iterator[tuple[str, ...]]:
    for name, one in PROVIDERS.items():
        address = code(one.url) or f"{code(f'https://RESOURCE{one.own_hosts[0]}')}, as `url`"
        header = f"{one.key_header}: {one.key_prefix}KEY"
        yield (
            code(f"{name}:MODEL"),
            address,
            code(one.key_variable),
            code(header),
            f"[{one.title}]({one.documentation})",
        )


_API_NAMES = {ForwardApi.COMPLETIONS: "text completions", ForwardApi.EMBEDDINGS: "embeddings"}


def _fact_rows() -> Iterator[tuple[str, ...]]:
    for name, one in PROVIDERS.items():
        yield (
            code(name),
            ", ".join(map(code, sorted(ALL_CHOICES & (one.honours | {"auto"})))),
            "yes" if one.parallel else "no: calls after the first are refused",
            "yes" if one.takes_strict else "no",
            code(one.max_tokens_field),
            ", ".join(map(code, sorted(one.options))),
            ", ".join(map(code, one.unsupported_fields)),
            ", ".join(_API_NAMES[api] for api in sorted(one.forwards)),
        )


def _difference_rows() -> Iterator[tuple[str, ...]]:
    for name, one in PROVIDERS.items():
        yield code(name), lines(_body_texts(one)), one.note


def _body_texts(one: Provider) -> Iterator[str]:
    for field in one.left_out:
        yield f"without {code(field)}"
    for ours, theirs in one.renamed.items():
        yield f"{code(ours)} is {code(theirs)}"
    for field, value in one.added.items():
        yield code(f"{field}: {dumps(value)}")
    if one.call_id_length:
        yield f"ids of calls have {one.call_id_length} letters and digits"
    for field, value in one.call_fields.items():
        yield f"each turn's first call has {code(f'{field}: {dumps(value)}')}"
