"""What the tests with real clients share: a gateway on the real model, and one that refuses. Started where needed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.gateway_clients import ClientBench, client_bench
from live.gateway_refusing import Refusing, refusing


@pytest.fixture(scope="module")
def stage() -> Iterator[ClientBench]:
    with client_bench() as made:
        yield made


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refusing]:
    with refusing(tmp_path_factory.mktemp("gateway")) as made:
        yield made
