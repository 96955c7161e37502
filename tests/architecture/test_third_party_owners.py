"""A third-party package is imported in one file, in the package that owns it, so it can be replaced in one file."""

import re
import tomllib

import pytest

from architecture.source_tree import ROOT, Import, all_imports, is_inside

# The import name of a third-party package -> our package, or the one file, that owns it.
OWNERS = {
    "aiohttp": "ferrule.engines",
    "agents": "ferrule.integrations",
    # anyio and httpx2 come with mcp: the streams and the HTTP that it is made of.
    "anyio": "ferrule.sources.mcp.client",
    "crewai": "ferrule.integrations",
    # Comes with mcp, whose tokens it encrypts.
    "cryptography": "ferrule.sources.mcp.credentials",
    "httpx2": "ferrule.sources.mcp.http",
    "huggingface_hub": "ferrule.engines.hub",
    "jinja2": "ferrule.wire.template.chat_template",
    "jsonschema_rs": "ferrule.schema",
    "jwt": "ferrule.server.auth.tokens",
    "langchain_core": "ferrule.integrations",
    # Comes with langchain, and handles approvals there.
    "langgraph": "ferrule.integrations",
    "llama_index": "ferrule.integrations",
    "llguidance": "ferrule.rules",
    "numpy": "ferrule.rules",
    # Comes with rich, whose Markdown it parses.
    "markdown_it": "ferrule.cli.terminal",
    "mcp": "ferrule.sources.mcp",
    "msgspec": "ferrule.core.json_text",
    "nats": "ferrule.sources.bus.connection",
    # Comes with agents: the types of the items that it is made of.
    "openai": "ferrule.integrations.openai_agents",
    "opentelemetry": "ferrule.server",
    "prometheus_client": "ferrule.server",
    "prompt_toolkit": "ferrule.cli.chat_input",
    "psycopg": "ferrule.run",
    "pydantic": "ferrule.schema.inference",
    "pydantic_ai": "ferrule.integrations.pydantic_ai",
    "redis": "ferrule.server.quotas.valkey_store",
    "rich": "ferrule.cli.terminal",
    "starlette": "ferrule.server",
    "tantivy": "ferrule.sources.search.tool_index",
    "uvicorn": "ferrule.server",
    "uvloop": "ferrule.server.process.event_loop",
    "xllamacpp": "ferrule.engines",
    "yaml": "ferrule.sources.openapi.document",
    # Comes with aiohttp: its type of a URL.
    "yarl": "ferrule.sources.openapi.source",
}
# Packages that more than one file may import, each with its reason. Empty is best.
SPREAD: dict[str, str] = {
    "aiohttp": "a source of tools calls an API, and the keys of identity providers are fetched, without an engine",
    "mcp": "signing in is a subject of its own, apart from a session",
    "httpx2": "huggingface_hub is made of it too, and lets its errors through",
    "psycopg": "the doctor reads a server's settings, which is no operation of a ledger",
    "pydantic": "a tool of CrewAI's has no arguments but a class of it",
    "pydantic_ai": "its adapter is a package, of which each file is about one side of it",
}
# Read only where a user's own types or tools come in: importing our file must not import the package.
ONLY_LAZILY = ("pydantic",)
EXEMPT = "ferrule.bench"


def third_party_imports() -> list[Import]:
    return [one for one in all_imports() if one.is_third_party and not is_inside(one.importer, EXEMPT)]


def test_every_third_party_package_has_an_owner() -> None:
    unknown = [str(one) for one in third_party_imports() if one.package not in OWNERS]
    assert not unknown, f"{unknown}: give it an owner in OWNERS and a row in docs/explanation/dependencies.md"


def test_a_package_is_imported_only_by_its_owner() -> None:
    broken = [
        f"{one} (owner: {OWNERS[one.package]})"
        for one in third_party_imports()
        if one.package in OWNERS and one.package not in SPREAD and not is_inside(one.importer, OWNERS[one.package])
    ]
    assert not broken, "\n  ".join(["", *broken, "call the owner's API instead"])


@pytest.mark.parametrize("package", sorted(OWNERS.keys() - SPREAD.keys()))
def test_a_package_is_imported_in_one_file(package: str) -> None:
    files = sorted({one.importer for one in third_party_imports() if one.package == package})
    assert len(files) <= 1, f"{package} is imported by {files}: keep one, and let the others call it"


def test_lazy_packages_are_imported_inside_a_function() -> None:
    broken = [str(one) for one in third_party_imports() if one.package in ONLY_LAZILY and not one.lazy]
    assert not broken, f"{broken}: import it inside the function that needs it"


def test_the_dependencies_page_names_every_declared_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    declared = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    for extra in project["project"]["optional-dependencies"].values():
        declared += extra
    names = {re.split(r"[<>=!~\[; ]", requirement)[0] for requirement in declared}
    page = (ROOT / "docs" / "explanation" / "dependencies.md").read_text(encoding="utf-8")
    missing = sorted(name for name in names if f"`{name}`" not in page)
    assert not missing, f"docs/explanation/dependencies.md has no row for {missing}"
