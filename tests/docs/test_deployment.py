"""The files of the deployment page agree with the code: ports, names, variables, routes, metrics."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from prometheus_client.parser import text_string_to_metric_families

from ferrule.errors import FerruleError
from ferrule.server.config.config import Config
from ferrule.server.config.loader import parse_config
from ferrule.server.observability.metrics import FAMILIES, Counts, Family
from ferrule.server.observability.metrics_api import render_page

ROOT = Path(__file__).parents[2]
HOW_TO = ROOT / "docs" / "how-to"
DEPLOY = HOW_TO / "deploy"
PROBES = ("/healthz", "/readyz")
ROUTES = {
    path
    for file in ("observability/health", "observability/metrics_api")
    for path in re.findall(
        r'Route\("GET", "([^"]+)"', (ROOT / "src/ferrule/server" / f"{file}.py").read_text(encoding="utf-8")
    )
}


def text(name: str) -> str:
    return (DEPLOY / name).read_text(encoding="utf-8")


def compose() -> dict[str, Any]:
    return yaml.safe_load(text("compose.yaml"))


def envoy() -> dict[str, Any]:
    return yaml.safe_load(text("envoy.yaml"))


def manifests(kind: str) -> dict[str, dict[str, Any]]:
    """The manifests that kustomization.yaml lists, by name."""
    documents = [
        one
        for resource in kustomization()["resources"]
        for one in yaml.safe_load_all(text(f"kubernetes/{resource}"))
        if one["kind"] == kind
    ]
    return {one["metadata"]["name"]: one for one in documents}


def kustomization() -> dict[str, Any]:
    return yaml.safe_load(text("kubernetes/kustomization.yaml"))


def gateway_pod() -> dict[str, Any]:
    return manifests("Deployment")["gateway"]["spec"]["template"]["spec"]


def variables(toml: str) -> set[str]:
    return set(re.findall(r"\$\{(\w+)", toml))


def environment(names: set[str]) -> dict[str, str]:
    """The environment variables that the page says to set."""
    digests = {name: hashlib.sha256(name.encode()).hexdigest() for name in names if name.endswith("SHA256")}
    return {"LEDGER_DSN": "postgresql://ferrule:password@postgres:5432/ferrule", **digests}


def load_config(toml: str) -> Config:
    return parse_config(toml, "ferrule.toml", environment(variables(toml))).config


TOMLS = {"compose": text("ferrule.toml"), "kubernetes": text("kubernetes/ferrule.toml")}


@pytest.mark.parametrize("where", TOMLS)
def test_the_configuration_is_one(where: str) -> None:
    config = load_config(TOMLS[where])
    assert [model.name for model in config.served_models] == ["qwen3-8b"]
    assert str(config.ledger).startswith("postgresql://")
    assert {key.name: (key.admin, key.operator) for key in config.keys} == {
        "app": (False, False),
        "operator": (True, True),
    }


def test_compose_sets_every_variable_that_the_configuration_reads_and_no_other() -> None:
    assert set(compose()["services"]["gateway"]["environment"]) == variables(TOMLS["compose"])


def test_kubernetes_says_how_to_make_a_secret_with_every_variable() -> None:
    secret_names = set(re.findall(r"--from-literal=(\w+)=", text("kubernetes/gateway.yaml")))
    assert secret_names == variables(TOMLS["kubernetes"])
    assert secret_names == set(re.findall(r"--from-literal=(\w+)=", (HOW_TO / "deploy.md").read_text(encoding="utf-8")))


def test_names_and_ports_of_compose_fit_the_configuration() -> None:
    services, config = compose()["services"], load_config(TOMLS["compose"])
    engine = re.fullmatch(r"vllm:http://(\w+):(\d+)", config.engines[0].use)
    assert engine is not None
    host, port = engine.groups()
    command = services[host]["command"]
    assert command[command.index("--port") + 1] == port
    assert command[command.index("--served-model-name") + 1] == config.served_models[0].name
    assert config.sources.nats == "nats://nats:4222"
    assert "nats" in services
    assert "@postgres:5432/" in services["gateway"]["environment"]["LEDGER_DSN"]


def test_names_and_ports_of_kubernetes_fit_the_configuration() -> None:
    config = load_config(TOMLS["kubernetes"])
    services = manifests("Service")
    assert config.engines[0].use == f"vllm:http://vllm:{services['vllm']['spec']['ports'][0]['port']}"
    (container,) = gateway_pod()["containers"]
    assert container["ports"] == [{"name": "http", "containerPort": config.server.port}]
    assert services["gateway"]["spec"]["ports"][0]["targetPort"] == "http"
    vllm = manifests("Deployment")["vllm"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert vllm[vllm.index("--served-model-name") + 1] == config.served_models[0].name
    assert config.server.workers == 1


def test_whatever_selects_pods_selects_some() -> None:
    labels = [one["spec"]["template"]["metadata"]["labels"] for one in manifests("Deployment").values()]
    for kind in ("Service", "PodDisruptionBudget", "NetworkPolicy"):
        for one in manifests(kind).values():
            spec = one["spec"]
            selector = spec.get("selector") or spec.get("podSelector")
            assert selector.get("matchLabels", selector) in labels
    for one in manifests("Deployment").values():
        assert one["spec"]["selector"]["matchLabels"] == one["spec"]["template"]["metadata"]["labels"]
    scaler = manifests("HorizontalPodAutoscaler")["gateway"]["spec"]
    assert scaler["scaleTargetRef"]["name"] in manifests("Deployment")
    # The autoscaler keeps the number of pods: a Deployment that names one would reset it with each apply.
    assert "replicas" not in manifests("Deployment")[scaler["scaleTargetRef"]["name"]]["spec"]


def test_the_autoscaler_counts_streams_by_a_metric_that_there_is() -> None:
    (metric,) = [
        one["pods"] for one in manifests("HorizontalPodAutoscaler")["gateway"]["spec"]["metrics"] if "pods" in one
    ]
    assert FAMILIES[metric["metric"]["name"]].is_gauge
    (rule,) = yaml.safe_load(text("kubernetes/prometheus-adapter.yaml"))["rules"]["custom"]
    assert rule["seriesQuery"].startswith(metric["metric"]["name"] + "{")


def test_pods_find_what_kustomize_makes_and_the_network_lets_through() -> None:
    (generated,) = kustomization()["configMapGenerator"]
    volumes = {one["name"]: one for one in gateway_pod()["volumes"]}
    assert volumes["config"]["configMap"]["name"] == generated["name"]
    assert generated["files"] == ["ferrule.toml"]
    (image,) = kustomization()["images"]
    assert gateway_pod()["containers"][0]["image"].split(":")[0] == image["name"]
    assert image["newTag"] == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    policy = manifests("NetworkPolicy")["gateway"]["spec"]
    out = {port["port"] for rule in policy["egress"] for port in rule["ports"]}
    config = load_config(TOMLS["kubernetes"])
    used = {config.engines[0].use, str(config.sources.nats), environment(set())["LEDGER_DSN"]}
    assert {int(re.findall(r":(\d+)", address)[-1]) for address in used} <= out
    assert policy["ingress"][0]["ports"] == [{"port": gateway_pod()["containers"][0]["ports"][0]["name"]}]


def test_a_deployment_waits_longer_than_a_gateway_drains() -> None:
    grace = compose()["services"]["gateway"]["stop_grace_period"]
    assert int(grace.removesuffix("s")) > load_config(TOMLS["compose"]).server.drain_seconds
    (unit_seconds,) = re.findall(r"^TimeoutStopSec=(\d+)$", text("ferrule.service"), re.MULTILINE)
    assert int(unit_seconds) > load_config(TOMLS["compose"]).server.drain_seconds
    pod = gateway_pod()
    before = int(pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][1])
    drain = load_config(TOMLS["kubernetes"]).server.drain_seconds
    assert pod["terminationGracePeriodSeconds"] > before + drain


def test_probes_ask_routes_that_exist_under_a_name_that_is_served() -> None:
    assert set(PROBES) <= ROUTES
    (container,) = gateway_pod()["containers"]
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        probe = container[name]["httpGet"]
        assert probe["path"] in PROBES
        assert probe["httpHeaders"] == [{"name": "Host", "value": "localhost"}]
    # One that restarts pods must not look at the engine: an engine that is down is not mended by that.
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert "/healthz" in text("Dockerfile")


def test_envoy_asks_the_gateway_where_it_listens_and_hides_what_is_for_its_operators() -> None:
    (cluster,) = envoy()["static_resources"]["clusters"]
    endpoint = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
    where = endpoint["address"]["socket_address"]
    for toml in TOMLS.values():
        assert where == {"address": "gateway", "port_value": load_config(toml).server.port}
    assert where["address"] in compose()["services"]
    assert where["address"] in manifests("Service")
    assert cluster["health_checks"][0]["http_health_check"]["path"] == "/readyz"
    (listener,) = envoy()["static_resources"]["listeners"]
    port = listener["address"]["socket_address"]["port_value"]
    assert compose()["services"]["envoy"]["ports"] == [f"{port}:{port}"]
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    routes = manager["route_config"]["virtual_hosts"][0]["routes"]
    hidden = {one["match"]["path"] for one in routes if "direct_response" in one}
    assert hidden == {*PROBES, "/metrics"}


def test_envoy_waits_longer_than_the_gateway_is_quiet_and_no_shorter_than_it_answers() -> None:
    limits = load_config(TOMLS["compose"]).limits
    manager = envoy()["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    route = manager["route_config"]["virtual_hosts"][0]["routes"][-1]["route"]
    assert _seconds(manager["stream_idle_timeout"]) >= 2 * limits.keep_alive_seconds
    assert _seconds(route["max_stream_duration"]["max_stream_duration"]) >= limits.total_seconds
    assert _seconds(route["timeout"]) == 0
    assert manager["max_request_headers_kb"] * 1024 <= limits.header_bytes
    assert "5xx" not in route["retry_policy"]["retry_on"]


def test_envoy_sends_what_a_gateway_that_has_ended_refuses_to_another_one_however_much_it_is() -> None:
    manager = envoy()["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    retry_policy = manager["route_config"]["virtual_hosts"][0]["routes"][-1]["route"]["retry_policy"]
    # By default Envoy chooses a second time only once, and the host that refuses has the fewest active requests.
    assert retry_policy["host_selection_retry_max_attempts"] >= 10
    (cluster,) = envoy()["static_resources"]["clusters"]
    (thresholds,) = cluster["circuit_breakers"]["thresholds"]
    # By default 3 at a time, and what is beyond them is refused with status 503.
    assert thresholds["max_retries"] >= thresholds["max_pending_requests"]


def test_prometheus_asks_the_gateway_with_the_operators_key() -> None:
    jobs = {one["job_name"]: one for one in yaml.safe_load(text("prometheus.yml"))["scrape_configs"]}
    job = jobs["ferrule"]
    assert job["metrics_path"] in ROUTES
    assert job["dns_sd_configs"][0]["port"] == load_config(TOMLS["compose"]).server.port
    secret = job["authorization"]["credentials_file"].removeprefix("/run/secrets/")
    assert secret in compose()["secrets"]
    assert secret in compose()["services"]["prometheus"]["secrets"]


def metric_names() -> set[str]:
    """Every metric name with samples in /metrics."""
    names: set[str] = set()
    for name, family in FAMILIES.items():
        endings = ("_bucket", "_sum", "_count") if family.bounds else ("",) if family.is_gauge else ("_total",)
        names |= {f"{name}{ending}" for ending in endings}
    return names


METRIC = re.compile(r"\b(?:ferrule|gen_ai|mcp)_\w+")
LABELS = {label for family in FAMILIES.values() for label in family.labels}
EXPRESSIONS: dict[str, list[str]] = {
    "dashboard": [
        target["expr"] for panel in json.loads(text("grafana/ferrule.json"))["panels"] for target in panel["targets"]
    ],
    "alerts": [rule["expr"] for group in yaml.safe_load(text("alerts.yml"))["groups"] for rule in group["rules"]],
}


@pytest.mark.parametrize("page", ["observe.md", "deploy.md"])
def test_every_metric_that_a_page_names_is_there(page: str) -> None:
    text_of_page = (HOW_TO / page).read_text(encoding="utf-8")
    named = set(METRIC.findall(text_of_page)) - LABELS
    assert named <= metric_names() | set(FAMILIES)


@pytest.mark.parametrize("file", EXPRESSIONS)
def test_every_metric_and_label_of_an_expression_is_exposed(file: str) -> None:
    for expression in EXPRESSIONS[file]:
        named = set(METRIC.findall(expression)) - LABELS
        assert named <= metric_names(), expression
        allowed = {label for name in named for label in _family(name).labels} | {"le", "job", "instance"}
        compared = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", expression))
        grouped = re.findall(r"\b(?:by|ignoring|on)\s*\(([^)]*)\)", expression)
        assert compared | {label.strip() for group in grouped for label in group.split(",")} <= allowed, expression


def test_the_error_rate_counts_codes_that_errors_have() -> None:
    codes = {one.code for one in _subclasses(FerruleError)}
    (expression,) = [one for one in EXPRESSIONS["alerts"] if "outcome=~" in one]
    (pattern,) = set(re.findall(r'outcome=~"([^"]+)"', expression))
    for alternative in pattern.split("|"):
        assert any(re.fullmatch(alternative, code) for code in codes), alternative
    for fault_of_the_caller in ("bad_request", "unauthenticated", "too_many_requests", "request_too_large", "draining"):
        assert not re.fullmatch(pattern, fault_of_the_caller)


def test_a_running_gateway_exposes_what_the_families_say() -> None:
    counts = Counts()
    for name, family in FAMILIES.items():
        labels = ["x"] * len(family.labels)
        if family.bounds:
            counts.observe(name, 1.0, *labels)
        else:
            counts.add(name, *labels)
    exposed = {
        sample.name
        for family in text_string_to_metric_families(render_page(counts).decode())
        for sample in family.samples
        if not sample.name.endswith("_created")
    }
    assert exposed == metric_names()


def test_compose_mounts_what_prometheus_and_grafana_read() -> None:
    services = compose()["services"]
    mounts = {
        target: source
        for service in ("prometheus", "grafana")
        for source, target, *_ in (volume.split(":") for volume in services[service]["volumes"])
    }
    assert all((DEPLOY / source).is_file() for source in mounts.values() if source.startswith("."))
    assert mounts[yaml.safe_load(text("prometheus.yml"))["rule_files"][0]] == "./alerts.yml"
    (provider,) = yaml.safe_load(text("grafana/dashboards.yaml"))["providers"]
    assert f"{provider['options']['path']}/ferrule.json" in mounts
    (datasource,) = yaml.safe_load(text("grafana/datasources.yaml"))["datasources"]
    assert datasource["url"].removeprefix("http://").split(":")[0] in services
    assert datasource["uid"] == "prometheus"
    (destination,) = datasource["jsonData"]["exemplarTraceIdDestinations"]
    assert destination["name"] == "trace_id"
    assert destination["url"].strip("${}") in services["grafana"]["environment"]
    assert "--enable-feature=exemplar-storage" in services["prometheus"]["command"]


def _family(metric: str) -> Family:
    """The family of a sample's name."""
    return next(FAMILIES[one] for one in (metric, re.sub("_(total|bucket|sum|count)$", "", metric)) if one in FAMILIES)


def _subclasses(error: type[FerruleError]) -> Iterator[type[FerruleError]]:
    yield error
    for one in error.__subclasses__():
        yield from _subclasses(one)


def test_the_table_of_metrics_is_made_from_the_families() -> None:
    rows = [
        f"| `{name}{'' if family.is_gauge or family.bounds else '_total'}` "
        f"| {', '.join(f'`{label}`' for label in family.labels)} | {family.help_text} |"
        for name, family in FAMILIES.items()
    ]
    page = (HOW_TO / "observe.md").read_text(encoding="utf-8")
    assert "\n".join(rows) in page, "\n".join(rows)


def test_what_the_image_is_built_from_is_in_the_repository() -> None:
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", text("Dockerfile"), re.MULTILINE)
    for name in " ".join(copied).split():
        assert (ROOT / name).exists(), name
    build = compose()["services"]["gateway"]["build"]
    assert (DEPLOY / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).is_file()


def test_the_locks_have_every_package_of_the_image_in_a_version_that_is_allowed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (names,) = re.findall(r"^extras=\((.+)\)$", (ROOT / "scripts" / "image-lock").read_text(), re.MULTILINE)
    extras: dict[str, list[str]] = project["project"]["optional-dependencies"]
    needed = [*project["project"]["dependencies"], *(one for name in names.split() for one in extras[name])]
    for lock, requirements in (("requirements.lock", needed), ("build.lock", project["build-system"]["requires"])):
        locked = dict(re.findall(r"^([\w.-]+)==([\w.]+)", text(lock), re.MULTILINE))
        for requirement in map(Requirement, requirements):
            assert requirement.specifier.contains(locked[requirement.name]), f"{requirement}: run scripts/image-lock"
        assert len(re.findall(r"^[\w.-]+==", text(lock), re.MULTILINE)) == len(locked)
        assert "http" not in "".join(re.findall(r"^ *--(?!hash).*", text(lock), re.MULTILINE))


def test_the_gateway_of_every_file_runs_without_rights() -> None:
    service = compose()["services"]["gateway"]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    pod = gateway_pod()
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"]
    assert f"--uid {pod['securityContext']['runAsUser']}" in text("Dockerfile")


def _seconds(text: str) -> float:
    return float(text.removesuffix("s"))
