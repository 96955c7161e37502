"""How the costs of keys, limits and identity are compared with a request without them."""

from __future__ import annotations

from lab.admission_costs import KINDS, Cost, Kind, misses, table_of


def costs(*rounds: float) -> dict[Kind, Cost]:
    return {kind: Cost(cpu=list(rounds), wall=[3.0, 1.0, 2.0]) for kind in KINDS}


MEASURED = {
    "no keys": costs(1.5, 1.02),
    "no keys, another process": costs(1.0, 1.3),
    "a key of the configuration file": costs(1.2, 1.1),
    "key, quotas in memory": costs(1.11, 1.2),
}


def test_the_least_of_the_rounds_is_compared_with_the_less_of_the_two_bases() -> None:
    rows = [list(row) for row in table_of(MEASURED, KINDS[0]).rows]
    assert rows == [
        ["no keys", "1.020", "0.020", "2.0", "", "2.00"],
        ["no keys, another process", "1.000", "0.000", "0.0", "", "2.00"],
        ["a key of the configuration file", "1.100", "0.100", "10.0", "yes", "2.00"],
        ["key, quotas in memory", "1.110", "0.110", "11.0", "no", "2.00"],
    ]


def test_each_variant_beyond_the_aim_is_named() -> None:
    one_kind = {**MEASURED, "key, quotas in Valkey": {**costs(1.0), KINDS[1]: Cost([1.5], [1.0])}}
    lines = misses({label: one_kind[label] for label in one_kind if label != "a key of the configuration file"})
    assert len(lines) == 2
    assert lines[0].startswith(
        "*key, quotas in memory* adds more than 10% to 4 of 4 kinds of requests (11.0% to 11.0%)"
    )
    assert lines[1].startswith("*key, quotas in Valkey* adds more than 10% to 1 of 4 kinds of requests (0.0% to 50.0%)")
    assert not misses({label: MEASURED[label] for label in ("no keys", "no keys, another process")})
