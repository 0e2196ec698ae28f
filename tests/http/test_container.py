"""What docker/ says, held against tools that know (hadolint, the Kubernetes schemas) and against the
daemon itself: its settings, its paths, its metrics, its memory. `make docker-test` runs the image."""
import json
import re
import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import pytest
import requests
import yaml

from conftest import PATIENCE, ROOT, Daemon, run_attnd

DOCKER = ROOT / "docker"
TOOLS = Path(sys.executable).parent
VERSIONS = ["1.25", "1.28", "1.31", "1.34", "1.37"]
UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "": 1}
# Beside the budget: the process with its libraries and threads, and the buffers of all connections.
PROCESS_BYTES = 128 << 20


def kustomized(name):
    """What `kubectl apply -k` would send: the resources of a kustomization, patched (RFC 6902, add and replace)."""
    folder = (DOCKER / "kubernetes" / name).resolve()
    plan = yaml.safe_load((folder / "kustomization.yaml").read_text())
    parts = []
    for resource in plan["resources"]:
        if (folder / resource).is_dir():
            parts += kustomized((folder / resource).resolve().name)
        else:
            parts += yaml.safe_load_all((folder / resource).read_text())
    for patch in plan.get("patches", []):
        target, = [part for part in parts if part["kind"] == patch["target"]["kind"] and part["metadata"]["name"] == patch["target"]["name"]]
        for change in yaml.safe_load(patch["patch"]):
            *way, last = change["path"].strip("/").split("/")
            place = target
            for step in way:
                place = place[int(step) if isinstance(place, list) else step]
            if last == "-":
                place.append(change["value"])
            else:
                assert change["op"] == "add" or last in place, change
                place[last] = change["value"]
    return parts


def manifest(kind, name="several"):
    return next(part for part in kustomized(name) if part["kind"] == kind)


@pytest.fixture(scope="module", params=["one", "several"])
def pod(request):
    return manifest("Deployment", request.param)["spec"]["template"]


@pytest.fixture(scope="module")
def container(pod):
    (only,) = pod["spec"]["containers"]
    return only


@pytest.fixture(scope="module")
def settings(container):
    """The settings that the pod's environment results in, by the daemon's own account."""
    env = {entry["name"]: entry["value"] for entry in container["env"]}
    done = run_attnd("--print-config", env=env)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return json.loads(done.stdout)


def bytes_of(text):
    number, unit = re.fullmatch(r"(\d+)([KMG]i?B?)?", str(text)).groups()
    return int(number) * UNITS[unit or ""]


# --- tools that know ---

def test_hadolint_finds_nothing():
    done = subprocess.run([TOOLS / "hadolint", "--failure-threshold", "style", DOCKER / "Dockerfile"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_hadolint_would_find_something(tmp_path):
    bad = tmp_path / "Dockerfile"
    bad.write_text((DOCKER / "Dockerfile").read_text().replace("--no-install-recommends", ""))
    assert subprocess.run([TOOLS / "hadolint", bad], capture_output=True).returncode != 0


@pytest.mark.parametrize("version", VERSIONS)
def test_manifests_follow_the_schemas(version):
    for name, count in (("one", 3), ("several", 8)):
        parts = kustomized(name)
        assert len(parts) == count
        for part in parts:
            kubernetes_validate.validate(part, version, strict=True)


def test_schemas_would_find_something():
    part = manifest("Deployment")
    part["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(part, VERSIONS[-1], strict=True)


# --- the image ---

def instructions():
    text = re.sub(r"\\\n\s*", " ", (DOCKER / "Dockerfile").read_text())
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_image_says_how_it_runs(container, pod):
    lines = instructions()
    assert lines[0] == "ARG BASE=debian:13-slim" and sum(line.startswith("FROM ${BASE}") for line in lines) == 3
    final = lines[max(i for i, line in enumerate(lines) if line.startswith("FROM")):]
    said = dict(line.split(" ", 1) for line in final if not line.startswith(("RUN", "COPY", "ARG")))
    uid, gid = (int(n) for n in said["USER"].split(":"))
    assert uid >= 10000 and pod["spec"]["securityContext"]["runAsUser"] == uid
    assert pod["spec"]["securityContext"]["runAsGroup"] == pod["spec"]["securityContext"]["fsGroup"] == gid
    assert json.loads(said["ENTRYPOINT"]) == ["/usr/local/bin/attnd"], "exec form: the daemon is process 1"
    assert said["STOPSIGNAL"] == "SIGTERM" and '["/usr/local/bin/attnd", "--healthcheck"]' in said["HEALTHCHECK"]
    assert said["EXPOSE"].split() == [str(port["containerPort"]) for port in container["ports"]]
    version = run_attnd("--version").stdout.split()[1]
    for label in ('image.source="${SOURCE}"', 'image.revision="${REVISION}"', 'image.base.name="${BASE}"'):
        assert label in said["LABEL"]
    assert f'image.version="{version}"' in said["LABEL"] and container["image"] == f"attnd:{version}"


def test_image_listens_on_all_its_addresses(container):
    line = next(line for line in instructions() if line.startswith("ENV"))
    env = dict(word.split("=", 1) for word in line.split()[1:])
    assert env.pop("ATTND_MODELS_DIR") == "${MODELS:+/models}", "empty, as by default, in an image without models"
    assert env == {"ATTND_LISTEN": "*:8080", "ATTND_OPS_LISTEN": "*:8081"}
    assert run_attnd("--check-config", env=env).returncode == 0


def test_compose_is_as_strict():
    (service,) = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"].values()
    assert service["read_only"] is True and service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    drain = json.loads(run_attnd("--print-config").stdout)["drain_ms"]
    assert int(service["stop_grace_period"].rstrip("s")) * 1000 > drain


# --- the manifests and the daemon ---

def test_memory_limit_holds_the_budget_and_the_rest(container, settings):
    limit = bytes_of(container["resources"]["limits"]["memory"])
    budget = settings["memory_bytes"]
    connections = settings["connections"] * settings["connection_bytes"]
    assert limit >= budget + connections + PROCESS_BYTES
    assert container["resources"]["requests"]["memory"] == container["resources"]["limits"]["memory"]
    daemon = Daemon()
    text = requests.get(daemon.ops_url + "/metrics", timeout=PATIENCE).text
    daemon.stop()
    resident = float(re.search(r"^process_resident_memory_bytes (\S+)$", text, re.M).group(1))
    assert resident < PROCESS_BYTES / 2, "what a daemon at rest holds"


def test_grace_period_and_readiness_fit_the_drain(pod, container, settings):
    grace = pod["spec"]["terminationGracePeriodSeconds"] * 1000
    assert grace >= settings["drain_delay_ms"] + settings["drain_ms"] + 5000
    assert settings["drain_ms"] >= settings["request_timeout_ms"], "an accepted request may use its time"
    probe = container["readinessProbe"]
    seen = (probe["periodSeconds"] + probe["timeoutSeconds"]) * probe["failureThreshold"] * 1000
    assert settings["drain_delay_ms"] > seen, "endpoints are gone before requests are refused"


def test_probe_paths_exist_on_the_operations_port(container):
    names = {port["name"]: port["containerPort"] for port in container["ports"]}
    daemon = Daemon()
    try:
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            asked = container[probe]["httpGet"]
            assert asked["port"] == "operations" and names["operations"] == 8081
            assert requests.get(daemon.ops_url + asked["path"], timeout=PATIENCE).status_code == 200
            assert asked["path"] in daemon.get("/openapi.json").json()["paths"]
    finally:
        daemon.stop()


def test_pod_is_restricted(pod, container):
    """The profile "restricted" of the Pod Security Standards, and a root that nothing writes to."""
    spec, mine = pod["spec"], container["securityContext"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert mine["allowPrivilegeEscalation"] is False and mine["capabilities"] == {"drop": ["ALL"]}
    assert mine["readOnlyRootFilesystem"] is True and spec["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    assert {next(k for k in volume if k != "name") for volume in spec["volumes"]} <= {"secret", "persistentVolumeClaim"}


def test_mounted_keys_are_what_the_daemon_takes(pod, container, settings, tmp_path):
    volume, mount = pod["spec"]["volumes"][0], container["volumeMounts"][0]
    folder, name = settings["keys_file"].rsplit("/", 1)
    assert mount["mountPath"] == folder and mount["name"] == volume["name"]
    assert f"--from-file={name}" in (DOCKER / "kubernetes" / "one" / "kustomization.yaml").read_text()
    keys = tmp_path / name
    keys.write_text("a-key-of-the-test-0\n")
    keys.chmod(volume["secret"]["defaultMode"])
    assert run_attnd("--check-config", "--keys-file", str(keys)).returncode == 0


def test_names_lead_where_they_should(pod, container):
    labels, ports = pod["metadata"]["labels"], {port["name"] for port in container["ports"]}
    deployment = manifest("Deployment")
    selectors = [deployment["spec"]["selector"]["matchLabels"], manifest("Service")["spec"]["selector"],
                 manifest("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
                 manifest("NetworkPolicy")["spec"]["podSelector"]["matchLabels"]]
    assert all(selector == labels for selector in selectors)
    assert {port["targetPort"] for port in manifest("Service")["spec"]["ports"]} == {"http"} <= ports
    allowed = {port["port"] for rule in manifest("NetworkPolicy")["spec"]["ingress"] for port in rule["ports"]}
    assert allowed == ports and manifest("NetworkPolicy")["spec"]["egress"] == []
    target = manifest("HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", deployment["metadata"]["name"])
    assert manifest("HorizontalPodAutoscaler")["spec"]["minReplicas"] == deployment["spec"]["replicas"]
    assert manifest("PodDisruptionBudget")["spec"]["minAvailable"] < deployment["spec"]["replicas"]
    assert pod["metadata"]["annotations"]["prometheus.io/port"] == "8081"


def test_several_pods_share_what_is_stored_and_one_has_it_for_itself():
    assert manifest("Deployment", "one")["spec"]["replicas"] == 1
    assert not [part for part in kustomized("one") if part["kind"] == "HorizontalPodAutoscaler"]
    deployment = manifest("Deployment")
    assert deployment["spec"]["replicas"] >= 2
    spec = deployment["spec"]["template"]["spec"]
    env = {entry["name"]: entry["value"] for entry in spec["containers"][0]["env"]}
    mounts = {mount["mountPath"]: mount for mount in spec["containers"][0]["volumeMounts"]}
    claims = {volume["name"]: volume["persistentVolumeClaim"]["claimName"] for volume in spec["volumes"] if "persistentVolumeClaim" in volume}
    sizes = {part["metadata"]["name"]: part["spec"] for part in kustomized("several") if part["kind"] == "PersistentVolumeClaim"}
    for setting, written in (("ATTND_RUNS_DIR", True), ("ATTND_MODELS_DIR", False)):
        mount = mounts[env[setting]]
        assert mount.get("readOnly", False) is not written
        assert sizes[claims[mount["name"]]]["accessModes"] == ["ReadWriteMany"]
    config = json.loads(run_attnd("--print-config", env=env).stdout)
    runs = config["runs_bytes"]
    assert runs < bytes_of(sizes["attnd-runs"]["resources"]["requests"]["storage"])


def test_the_404_of_a_run_hints_at_other_pods(start, tmp_path):
    gone = "/v1/runs/" + "0" * 32
    alone, shared = start(), start("--runs-dir", str(tmp_path))
    assert "runs_dir" in alone.get(gone).json()["detail"]
    assert "runs_dir" not in shared.get(gone).json()["detail"]


def test_autoscaling_metric_comes_from_a_metric_that_is_served():
    (rule,) = yaml.safe_load(manifest("ConfigMap")["data"]["config.yaml"])["rules"]
    (metric,) = manifest("HorizontalPodAutoscaler")["spec"]["metrics"]
    assert metric["pods"]["metric"]["name"] == rule["name"]["as"]
    series = rule["seriesQuery"].split("{")[0]
    daemon = Daemon()
    text = requests.get(daemon.ops_url + "/metrics", timeout=PATIENCE).text
    daemon.stop()
    assert re.search(rf"^{series} ", text, re.M)
