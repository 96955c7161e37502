"""`ferrule bench`: measures an engine with Ferrule. Each measurement is in its own module."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from ferrule.cli import bench_bfcl, bench_overhead, bench_validity
from ferrule.cli.command import Command


def _add_options(parser: ArgumentParser) -> None:
    kinds = parser.add_subparsers(title="measurements", metavar="WHAT", required=True)
    bfcl = kinds.add_parser("bfcl", help="correctness: BFCL v4, single turn, scored like the official scorer")
    bench_bfcl.add_options(bfcl)
    bfcl.set_defaults(act=bench_bfcl.run)
    validity = kinds.add_parser("validity", help="validity: with and without the rule, judged by another validator")
    bench_validity.add_options(validity)
    validity.set_defaults(act=bench_validity.run)
    overhead = kinds.add_parser("overhead", help="cost: tokens per second with the rule and without")
    bench_overhead.add_options(overhead)
    overhead.set_defaults(act=bench_overhead.run)


def _run(arguments: Namespace) -> None:
    arguments.act(arguments)


COMMAND = Command(
    name="bench",
    about="Measure an engine: correct calls, valid calls, cost.",
    more="The questions come from BFCL v4, which is not part of Ferrule; if it is missing, the command\n"
    "says how to get it. Answers are saved, so that a stopped run can resume.",
    examples="  ferrule bench bfcl --engine llama:model.gguf --count 300\n"
    "  ferrule bench bfcl --engine vllm:http://127.0.0.1:8000 --category live_multiple --unconstrained\n"
    "  ferrule bench validity --engine llama:model.gguf --count 100\n"
    "  ferrule bench overhead --engine llama-server:http://127.0.0.1:8080",
    add_options=_add_options,
    run=_run,
)
