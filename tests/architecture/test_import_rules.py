"""Which package may import which. The tables below are the rule; AGENTS.md explains it."""

from dataclasses import dataclass

import pytest

from architecture.source_tree import ROOT, Import, all_imports, is_inside, modules

ANYTHING = ("ferrule",)

# The package of a module is its longest prefix here. Each may also import errors, core and itself.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "ferrule": ANYTHING,
    "ferrule.__main__": ANYTHING,
    # The public modules re-export from anywhere; nothing inside imports them (see EVERYONE_MAY_IMPORT).
    "ferrule.events": ANYTHING,
    "ferrule.formats": ANYTHING,
    "ferrule.gateway": ANYTHING,
    "ferrule.hooks": ANYTHING,
    "ferrule.ledger": ANYTHING,
    "ferrule.specification": ANYTHING,
    "ferrule.testing": ANYTHING,
    "ferrule.lazy_exports": (),
    "ferrule.version": (),
    "ferrule.errors": (),
    "ferrule.core": (),
    "ferrule.schema": (),
    "ferrule.rules": ("ferrule.schema",),
    # rules.rule and never a target: a walk says what may be generated, not in which language.
    "ferrule.wire": ("ferrule.schema", "ferrule.rules.rule"),
    "ferrule.wire.formats": ("ferrule.wire.node", "ferrule.wire.format"),
    "ferrule.dialects": ("ferrule.schema",),
    # schema too: every call of an engine is validated before it is passed on.
    "ferrule.engines": ("ferrule.schema", "ferrule.rules", "ferrule.wire", "ferrule.dialects"),
    # rules.call_check: what runs a tool validates its arguments first, with the grammar of a custom tool.
    "ferrule.sources": ("ferrule.schema", "ferrule.rules.call_check"),
    # Conversations mostly get Python functions; every other source is created outside and passed in. What MCP servers
    # ask (elicitations and samples) are values, and are answered where approvals are.
    "ferrule.run": (
        *("ferrule.schema", "ferrule.engines.engine", "ferrule.engines.request_options", "ferrule.engines.sync"),
        *(
            "ferrule.rules.call_check",
            "ferrule.sources.source",
            "ferrule.sources.call_timer",
            "ferrule.sources.functions",
            "ferrule.sources.mcp.elicitation",
            "ferrule.sources.mcp.sampling",
        ),
        "ferrule.sources.tool_output",
        # Where tools are deferred, a program that passes no search of its own gets this one.
        "ferrule.sources.search.tool_finder",
    ),
    "ferrule.run.machine": ("ferrule.run.policy",),
    "ferrule.run.policy": (),
    # Above engines, sources and run, because it joins them: a model as a capability of the bus, and back.
    "ferrule.llm_chat": (
        *("ferrule.schema", "ferrule.dialects", "ferrule.run", "ferrule.sources"),
        *("ferrule.engines.engine", "ferrule.engines.receipts", "ferrule.engines.repair", "ferrule.engines.turn"),
    ),
    # schema too: what a client sends is validated here. The server knows engines only by interface and engine string.
    "ferrule.server": (
        *("ferrule.schema", "ferrule.dialects", "ferrule.run", "ferrule.sources", "ferrule.rules.call_check"),
        *(
            "ferrule.engines.engine",
            "ferrule.engines.registry",
            "ferrule.engines.profile",
            "ferrule.engines.deadlines",
        ),
    ),
    # dialects too: frameworks pass JSON that is close to OpenAI's APIs.
    "ferrule.integrations": (
        *("ferrule.schema", "ferrule.dialects", "ferrule.run"),
        *("ferrule.engines.engine", "ferrule.engines.registry", "ferrule.engines.sync"),
        *("ferrule.sources.source", "ferrule.sources.functions", "ferrule.sources.tool_exceptions"),
        *("ferrule.sources.status", "ferrule.sources.tool_threads"),
    ),
    "ferrule.bench": ANYTHING,
    "ferrule.cli": ANYTHING,
}
# Imports against the direction of the table, with the reason. Each runs inside a function or for the type checker only,
# so importing the lower package never imports the upper one.
LAZY_EXCEPTIONS: dict[tuple[str, str], str] = {
    (
        "ferrule.engines.engine",
        "ferrule.run.single_turn",
    ): "users look for the tool loop on the engine: engine.run(...)",
    ("ferrule.run.conversation", "ferrule.engines.registry"): 'ToolConversation("llama:PATH") loads its engine',
    ("ferrule.engines.registry", "ferrule.llm_chat.engine"): 'load_engine("bus:llm.chat@2.0") is one of the engines',
    ("ferrule.run.executor", "ferrule.llm_chat.chat"): "the specification's run_chat_with_tools(body)",
}
EVERYONE_MAY_IMPORT = ("ferrule.errors", "ferrule.core", "ferrule.lazy_exports")
NOBODY_IMPORTS = ("ferrule.bench", "ferrule.cli")
MAY_IMPORT_THOSE = ("ferrule.bench", "ferrule.cli", "ferrule.__main__")


@dataclass(frozen=True, slots=True)
class Peers:
    """A package whose files are variants of one thing: they may import the shared files, but not each other."""

    package: str
    shared: frozenset[str]
    over: frozenset[str]
    """Files that may import all variants."""

    def member(self, module: str) -> str:
        return module.removeprefix(self.package).lstrip(".").partition(".")[0]


PEERS = (
    Peers(
        "ferrule.engines",
        frozenset(
            {
                *("engine", "request_options", "sync", "receipts", "repair", "turn"),
                *("generator", "grammar", "text", "chat", "checkpoint"),
                *("http", "refusal", "completions", "forward", "llama_body", "profile", "deadlines"),
                *("hardware", "cache_folder"),
            }
        ),
        frozenset({"", "registry", "doctor"}),
    ),
    Peers(
        "ferrule.sources",
        frozenset(
            {"source", "status", "adapters", "combined_sources", "tool_exceptions", "tool_output", "tool_threads"}
            | {"tool_processes", "call_timer"}
        ),
        # The main module of a process that runs functions.
        frozenset({"", "tool_process_worker"}),
    ),
    # The caller's end of the bus and the worker's do not know each other.
    Peers(
        "ferrule.sources.bus",
        frozenset(
            {"connection", "request_reply", "frame", "micro", "names", "directory"}
            | {"deduplication", "running_calls", "subject", "token", "worker_slots"}
        ),
        # The relay is a source that calls through the bus.
        frozenset({"", "relay"}),
    ),
    Peers("ferrule.integrations", frozenset({"exported_tools", "imported_tools", "model", "request"}), frozenset({""})),
    Peers(
        "ferrule.dialects",
        frozenset({"tool_definitions", "finish_reason", "extension", "field", "incoming_calls", "line_splitter"})
        | frozenset({"lenient_json", "allowed_tools", "ndjson", "json_stream", "openai_error", "caller_error"})
        | frozenset({"openai_media", "engine_options"})
        | frozenset({"choice_policy", "result_text", "sequence", "sse", "field_reads", "ignored_fields"}),
        frozenset({""}),
    ),
)


def package_of(module: str) -> str | None:
    packages = [package for package in MAY_IMPORT if package != "ferrule" and is_inside(module, package)]
    return max(packages, key=len) if packages else ("ferrule" if module == "ferrule" else None)


def is_allowed(one: Import) -> bool:
    package = package_of(one.importer)
    assert package is not None
    if package not in MAY_IMPORT_THOSE and any(is_inside(one.target, closed) for closed in NOBODY_IMPORTS):
        return False
    if MAY_IMPORT[package] == ANYTHING:
        return True
    if one.lazy and (one.importer, one.target) in LAZY_EXCEPTIONS:
        return True
    # Everyone imports errors, so errors can import nobody without a circle.
    allowed = () if package == "ferrule.errors" else (*EVERYONE_MAY_IMPORT, package, *MAY_IMPORT[package])
    return any(is_inside(one.target, name) for name in allowed)


def own_imports() -> list[Import]:
    return [one for one in all_imports() if one.package == "ferrule"]


@pytest.mark.parametrize(
    "importer, target, allowed",
    [
        ("ferrule.core.call", "ferrule.core.tool", True),
        ("ferrule.core.call", "ferrule.schema", False),
        ("ferrule.core.call", "ferrule", False),
        ("ferrule.errors", "ferrule.core.fault", False),
        ("ferrule.wire.parser", "ferrule.rules.rule", True),
        ("ferrule.wire.parser", "ferrule.rules.gbnf", False),
        ("ferrule.wire.formats.qwen", "ferrule.wire.node", True),
        ("ferrule.wire.formats.qwen", "ferrule.wire.parser", False),
        ("ferrule.dialects.openai_chat.reply_decoder", "ferrule.schema.checker", True),
        ("ferrule.dialects.openai_chat.reply_decoder", "ferrule.wire.parser", False),
        ("ferrule.run.loop", "ferrule.engines.engine", True),
        ("ferrule.run.loop", "ferrule.engines.vllm", False),
        ("ferrule.run.machine", "ferrule.run.loop", False),
        ("ferrule.server.app", "ferrule.cli.main", False),
        ("ferrule.cli.main", "ferrule.server.app", True),
        ("ferrule", "ferrule.engines.registry", True),
        ("ferrule", "ferrule.bench", False),
    ],
)
def test_the_table_reads_as_meant(importer: str, target: str, allowed: bool) -> None:
    assert is_allowed(Import(importer, ROOT / "nowhere.py", 1, target, lazy=False)) is allowed


@pytest.mark.parametrize("importer, target", LAZY_EXCEPTIONS)
def test_an_exception_is_for_lazy_imports_only_and_is_used(importer: str, target: str) -> None:
    assert not is_allowed(Import(importer, ROOT / "nowhere.py", 1, target, lazy=False))
    assert any((one.importer, one.target) == (importer, target) for one in own_imports()), "remove it from the table"


def test_every_module_belongs_to_a_package() -> None:
    strays = [module for module in modules() if package_of(module) is None]
    assert not strays, (
        f"no row in MAY_IMPORT of {__name__} for {strays}: move them into a package, or add the package there"
    )


def test_each_package_imports_only_what_its_row_allows() -> None:
    broken = [str(one) for one in own_imports() if package_of(one.importer) and not is_allowed(one)]
    assert not broken, _report(broken, "not allowed by MAY_IMPORT; move the code to the package that may know both")


@pytest.mark.parametrize("peers", PEERS, ids=lambda peers: peers.package)
def test_variants_do_not_import_each_other(peers: Peers) -> None:
    broken: list[str] = []
    for one in own_imports():
        if not (is_inside(one.importer, peers.package) and is_inside(one.target, peers.package)):
            continue
        importer, target = peers.member(one.importer), peers.member(one.target)
        if importer not in peers.over and target != importer and target not in peers.shared:
            broken.append(str(one))
    assert not broken, _report(
        broken, f"put what they share into one of {sorted(peers.shared)} (or name a new one in PEERS)"
    )


def test_the_package_does_not_import_the_laboratory() -> None:
    broken = [str(one) for one in all_imports() if one.package == "lab"]
    assert not broken, _report(broken, "lab/ is not in the wheel: move what the package needs into the package")


def test_a_format_builds_on_at_most_one_other_family() -> None:
    families: dict[str, set[str]] = {}
    for one in own_imports():
        both_are_families = all(name.startswith("ferrule.wire.formats.") for name in (one.importer, one.target))
        if both_are_families and one.target != one.importer:
            families.setdefault(one.importer, set()).add(one.target)
    broken = [f"{module} imports {sorted(others)}" for module, others in families.items() if len(others) > 1]
    assert not broken, _report(
        broken, "a variant is one family with a small difference; state the rest in its own file"
    )


def test_the_walks_know_no_family() -> None:
    broken = [
        str(one)
        for one in own_imports()
        if package_of(one.importer) == "ferrule.wire" and one.target.startswith("ferrule.wire.formats.")
    ]
    assert not broken, _report(
        broken, "find formats through the registry; what one family needs is a node or a Format field"
    )


def _report(broken: list[str], remedy: str) -> str:
    return "\n  ".join(["", *broken, remedy])
