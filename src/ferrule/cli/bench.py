"""`ferrule bench`: measures an engine with Ferrule on it. Each measurement is a file of its own beside this."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from ferrule.cli import bench_bfcl, bench_overhead, bench_validity
from ferrule.cli.command import Command


def _add_options(parser: ArgumentParser) -> None:
    kinds = parser.add_subparsers(title="measurements", metavar="WHAT", required=True)
    bfcl = kinds.add_parser(
        "bfcl", help="are the calls right? BFCL v4, single turn, scored as the official scorer does"
    )
    bench_bfcl.add_options(bfcl)
    bfcl.set_defaults(act=bench_bfcl.run)
    validity = kinds.add_parser("validity", help="are the calls valid? with the rule and without, by another validator")
    bench_validity.add_options(validity)
    validity.set_defaults(act=bench_validity.run)
    overhead = kinds.add_parser("overhead", help="what does the rule cost? tokens a second, beside the engine run bare")
    bench_overhead.add_options(overhead)
    overhead.set_defaults(act=bench_overhead.run)


def _run(arguments: Namespace) -> None:
    arguments.act(arguments)


COMMAND = Command(
    name="bench",
    about="Measure an engine: right calls, valid calls, cost.",
    more="The questions are those of BFCL v4, which are not part of Ferrule: without them, the command\n"
    "says how to get them. What was answered is kept, so that a run that was stopped goes on.",
    examples="  ferrule bench bfcl --engine llama:model.gguf --count 300\n"
    "  ferrule bench bfcl --engine vllm:http://127.0.0.1:8000 --category live_multiple --unconstrained\n"
    "  ferrule bench validity --engine llama:model.gguf --count 100\n"
    "  ferrule bench overhead --engine llama-server:http://127.0.0.1:8080",
    add_options=_add_options,
    run=_run,
)
