"""Prometheus as `scripts/setup-prometheus` brings it, with the page's own configuration, on a gateway of the test."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lab.paths import CACHE, ROOT
from lab.servers import free_port
from waiting import PATIENCE, eventually

DEPLOY = ROOT / "docs" / "how-to" / "deploy"
PROGRAMS = CACHE / "prometheus" / "usr" / "bin"


@dataclass(frozen=True, slots=True)
class Prometheus:
    url: str

    def get(self, path: str, **query: str) -> Any:
        with urllib.request.urlopen(f"{self.url}{path}?{urllib.parse.urlencode(query)}", timeout=PATIENCE) as answer:
            return json.load(answer)["data"]

    def series(self, expression: str) -> list[dict[str, Any]]:
        """What a query finds now. One that Prometheus refuses raises HTTPError."""
        return self.get("/api/v1/query", query=expression)["result"]

    @property
    def rules(self) -> list[dict[str, Any]]:
        return [rule for group in self.get("/api/v1/rules")["groups"] for rule in group["rules"]]

    @property
    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=PATIENCE):
                return True
        except OSError:
            return False


@contextmanager
def prometheus(folder: Path, gateway: str, operator_key: str) -> Generator[Prometheus]:
    """Scrape one gateway each second with what prometheus.yml says of the job, and evaluate alerts.yml."""
    key, config, log = folder / "operator.key", folder / "prometheus.yml", folder / "prometheus.log"
    key.write_text(operator_key, encoding="utf-8")
    written = yaml.safe_load((DEPLOY / "prometheus.yml").read_text(encoding="utf-8"))
    (job,) = [one for one in written["scrape_configs"] if one["job_name"] == "ferrule"]
    del job["dns_sd_configs"]
    job |= {"static_configs": [{"targets": [gateway.removeprefix("http://")]}], "scrape_interval": "1s"}
    job["scrape_timeout"] = "1s"
    job["authorization"]["credentials_file"] = str(key)
    written |= {"global": {"evaluation_interval": "1s"}, "scrape_configs": [job]}
    written["rule_files"] = [str(DEPLOY / "alerts.yml")]
    config.write_text(yaml.safe_dump(written), encoding="utf-8")
    port = free_port()
    with log.open("wb") as out:
        process = subprocess.Popen(
            [
                PROGRAMS / "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'metrics'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--enable-feature=exemplar-storage",
            ],
            stdout=out,
            stderr=out,
            cwd=folder,
        )
    made = Prometheus(f"http://127.0.0.1:{port}")
    try:
        eventually(lambda: made.is_ready or process.poll() is not None)
        assert process.poll() is None, log.read_text(errors="replace")
        yield made
    finally:
        process.kill()
        process.wait()
