"""The manifests by the schemas of Kubernetes, and the unit by systemd (`scripts/setup-deploy`)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from lab.paths import CACHE, ROOT

pytestmark = pytest.mark.live
DEPLOY = ROOT / "docs" / "how-to" / "deploy"
VALIDATE = CACHE / "venvs" / "kubernetes" / "bin" / "kubernetes-validate"
MOST_EXPOSED = 20
"""In tenths, as systemd rates a service without a sandbox with 96."""


def _validate(folder: Path, kubernetes: str, *documents: object) -> subprocess.CompletedProcess[str]:
    file = folder / "manifests.yaml"
    file.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    command = [VALIDATE, "--strict", "--quiet", "-k", kubernetes, file]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("kubernetes", ["1.31", "1.37"])
def test_kubernetes_takes_every_manifest_without_an_unknown_field(kubernetes: str, tmp_path: Path) -> None:
    folder = DEPLOY / "kubernetes"
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))
    documents = [one for name in kustomization["resources"] for one in yaml.safe_load_all((folder / name).read_text())]
    done = _validate(tmp_path, kubernetes, *documents)
    assert done.returncode == 0, done.stdout + done.stderr
    (deployment,) = [one for one in documents if one["kind"] == "Deployment" and one["metadata"]["name"] == "gateway"]
    deployment["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    assert _validate(tmp_path, kubernetes, deployment).returncode != 0


def test_systemd_takes_the_unit_and_rates_its_sandbox_as_tight(tmp_path: Path) -> None:
    written = (DEPLOY / "ferrule.service").read_text(encoding="utf-8")
    # systemd looks whether the program is there.
    unit = tmp_path / "ferrule.service"
    unit.write_text(written.replace("/opt/ferrule/bin/ferrule", "/bin/true"), encoding="utf-8")
    assert unit.read_text() != written
    verified = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stderr) == (0, "")
    rated = ["systemd-analyze", "security", "--offline=true", "--no-pager", f"--threshold={MOST_EXPOSED}", unit]
    rating = subprocess.run(rated, capture_output=True, text=True, check=False)
    assert rating.returncode == 0, rating.stdout.splitlines()[-1]
