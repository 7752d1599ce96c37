"""What deploy/ has, checked by the tools that its own world has for it."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from lightkube.models import apps_v1, core_v1, discovery_v1, policy_v1, rbac_v1
from manifests import DEPLOY, ROOT, containers, documents, of_kind

from doyen.node.layers import misspelt

MODELS = {
    "v1": core_v1,
    "apps/v1": apps_v1,
    "policy/v1": policy_v1,
    "discovery.k8s.io/v1": discovery_v1,
    "rbac.authorization.k8s.io/v1": rbac_v1,
}
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
WORKLOADS = [DEPLOY / "kubernetes" / "gossip.yaml", DEPLOY / "kubernetes" / "quorum.yaml"]


def tool(name: str) -> str:
    """Return the path of a tool, beside this Python or on the path; skip, and say what is not checked, without it."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        pytest.skip(f"NOT CHECKED: {name} is not here (scripts/deploy-tools.sh installs it)")
    return found


def checked(*command: str | Path, cwd: Path = DEPLOY) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


# ── Containers ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_dockerfile_is_sound() -> None:
    checked(tool("hadolint"), "--no-color", "Dockerfile")


def test_what_the_dockerfile_copies_is_there_and_not_ignored() -> None:
    allowed = [line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line[:1] == "!"]
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    names = " ".join(copied).split()
    assert len(names) == 5
    for name in names:
        assert (ROOT / name).exists() and name in allowed, name


def test_compose_keeps_to_its_schema() -> None:
    checked(tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", "compose.yaml")


# ── Kubernetes ──────────────────────────────────────────────────────────────────────────────────────────────


def complaint(document: dict[str, Any]) -> str:
    """Return what is wrong with a Kubernetes object by the API's own types; "" if nothing is."""
    kind = vars(MODELS[document["apiVersion"]])[document["kind"]]
    try:
        read = msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        return str(error)
    return unknown(document, read)


def unknown(given: Any, read: Any) -> str:
    """Return what was given and is no field of the type that it was read as."""
    if isinstance(given, dict):
        kept = msgspec.structs.asdict(read) if isinstance(read, msgspec.Struct) else read
        if isinstance(read, msgspec.Struct):
            kept = dict(zip(read.__struct_encode_fields__, kept.values(), strict=True))
        extra = given.keys() - kept.keys()
        if extra:
            return f"{type(read).__name__} has no {', '.join(sorted(extra))}"
        pairs = [(value, kept[name]) for name, value in given.items()]
    elif isinstance(given, list):
        pairs = list(zip(given, read, strict=True))
    else:
        return ""
    return next((found for pair in pairs if (found := unknown(*pair))), "")


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_are_objects_of_kubernetes(path: Path) -> None:
    for document in documents(path):
        assert complaint(document) == "", document["kind"]


def test_a_wrong_manifest_would_be_noticed() -> None:
    def broken(change: Any) -> str:
        document = of_kind(WORKLOADS[0], "Deployment")
        change(document["spec"], document["spec"]["template"]["spec"]["containers"][0])
        return complaint(document)

    assert broken(lambda spec, container: None) == ""
    assert "readinesProbe" in broken(lambda spec, container: container.update(readinesProbe={}))
    assert "int" in broken(lambda spec, container: spec.update(replicas="three"))
    assert "str" in broken(lambda spec, container: container["env"].append({"name": "X", "value": 1}))
    assert "selector" in broken(lambda spec, container: spec.pop("selector"))


@pytest.mark.parametrize("path", WORKLOADS, ids=lambda path: path.name)
def test_pods_that_are_not_ready_are_found_and_probes_ask_nothing_of_leadership(path: Path) -> None:
    service = of_kind(path, "Service")["spec"]
    workload = of_kind(path, "Deployment", "StatefulSet")["spec"]
    pod = workload["template"]
    assert service["clusterIP"] == "None" and service["publishNotReadyAddresses"] is True
    assert service["selector"] == workload["selector"]["matchLabels"] == pod["metadata"]["labels"]
    assert of_kind(path, "PodDisruptionBudget")["spec"]["selector"] == workload["selector"]
    (container,) = pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    environment = {entry["name"]: entry.get("value", "") for entry in container["env"]}
    assert misspelt(environment) == {}
    assert environment["DOYEN_HTTP"].endswith(f":{ports['doyen-http']}") and environment["DOYEN_HTTP_OPEN"] == "true"
    paths = {probe: container[f"{probe}Probe"]["httpGet"]["path"] for probe in ("startup", "liveness", "readiness")}
    assert paths == {"startup": "/livez", "liveness": "/livez", "readiness": "/readyz"}
    grace_s = int(container["args"][container["args"].index("--grace") + 1].removesuffix("s"))
    assert grace_s < pod["spec"]["terminationGracePeriodSeconds"]
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    claimed = {claim["metadata"]["name"] for claim in workload.get("volumeClaimTemplates", ())}
    assert mounted == {volume["name"] for volume in pod["spec"]["volumes"]} | claimed


def test_the_voters_are_the_pods_of_the_stateful_set() -> None:
    path = DEPLOY / "kubernetes" / "quorum.yaml"
    workload, (container,) = of_kind(path, "StatefulSet"), containers(path)
    pods = [f"{workload['metadata']['name']}-{i}" for i in range(workload["spec"]["replicas"])]
    service = workload["spec"]["serviceName"]
    environment = {entry["name"]: entry.get("value", "") for entry in container["env"]}
    assert workload["spec"]["podManagementPolicy"] == "Parallel"
    assert environment["DOYEN_VOTERS"].split(",") == pods
    assert environment["DOYEN_SEED"].split(",") == [f"{pod}.{service}:7600" for pod in pods]
    assert of_kind(path, "Service")["metadata"]["name"] == service
    (first,) = containers(path, "initContainers")
    assert first["env"] == container["env"] and first["volumeMounts"] == container["volumeMounts"]


def test_the_leader_may_write_its_own_slice_and_nothing_else() -> None:
    path = DEPLOY / "kubernetes" / "leader.yaml"
    role, held = of_kind(path, "Role"), of_kind(path, "EndpointSlice")
    name = of_kind(path, "Service")["metadata"]["name"]
    assert role["rules"] == [
        {
            "apiGroups": ["discovery.k8s.io"],
            "resources": ["endpointslices"],
            "resourceNames": [name],
            "verbs": ["get", "update"],
        }
    ]
    assert held["metadata"]["name"] == held["metadata"]["labels"]["kubernetes.io/service-name"] == name
    account = of_kind(path, "ServiceAccount")["metadata"]["name"]
    for workload in WORKLOADS:
        spec = of_kind(workload, "Deployment", "StatefulSet")["spec"]["template"]["spec"]
        assert spec["serviceAccountName"] == account and name in spec["containers"][0]["args"]


# ── systemd ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_unit_is_sound_and_hardened(tmp_path: Path) -> None:
    analyze = tool("systemd-analyze")
    unit = (DEPLOY / "systemd" / "reports.service").read_text()
    placed = tmp_path / "reports.service"
    placed.write_text(unit.replace("/opt/doyen/bin/doyen", "/bin/true"))  # It must be there to be verified.
    checked(analyze, "verify", "--man=no", placed)
    told = checked(analyze, "security", "--offline=true", "--threshold=20", "--no-pager", placed)
    assert "Overall exposure level" in told
    placed.write_text(placed.read_text().replace("[Service]", "[Service]\nKilMode=mixed"))
    done = subprocess.run([analyze, "verify", "--man=no", placed], capture_output=True, text=True, check=False)
    assert "KilMode" in done.stderr


# ── Prometheus and Grafana ──────────────────────────────────────────────────────────────────────────────────

METRICS = re.compile(r"\b(?:doyen|process)_[a-z_]+")


def test_the_alerts_do_what_they_say() -> None:
    promtool = tool("promtool")
    assert "7 rules found" in checked(promtool, "check", "rules", "alerts.yaml", cwd=DEPLOY / "prometheus")
    checked(promtool, "test", "rules", "alerts.test.yaml", cwd=DEPLOY / "prometheus")
    checked(promtool, "check", "config", "--syntax-only", "prometheus.yaml", cwd=DEPLOY / "prometheus")


def expressions() -> dict[str, str]:
    """Return every query of the dashboard, with Grafana's variables filled in, and of the alerts."""
    board = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())
    found = {}
    for panel in board["panels"]:
        for target in panel["targets"]:
            expression = re.sub(r"\$__(rate_interval|range)", "5m", target["expr"])
            found[f"{panel['title']} {target['refId']}"] = re.sub(r"\$(group|election)", ".*", expression)
    for rule in documents(DEPLOY / "prometheus" / "alerts.yaml")[0]["groups"][0]["rules"]:
        found[rule["alert"]] = rule["expr"]
    return found


def test_every_query_is_promql(tmp_path: Path) -> None:
    rules = [{"record": f"check:{i}", "expr": expression} for i, expression in enumerate(expressions().values())]
    (tmp_path / "rules.json").write_text(json.dumps({"groups": [{"name": "checked", "rules": rules}]}))  # JSON is YAML.
    assert f"{len(rules)} rules found" in checked(tool("promtool"), "check", "rules", tmp_path / "rules.json")


def test_every_query_asks_for_what_a_node_serves() -> None:
    reference = (ROOT / "docs" / "reference" / "http.md").read_text()
    documented = set(METRICS.findall(reference[reference.index("## Metrics") :]))
    for where, expression in expressions().items():
        asked = {name.removesuffix("_bucket") for name in METRICS.findall(expression)}
        assert asked <= documented, f"{where}: {asked - documented}"


def test_the_dashboard_has_what_grafana_wants() -> None:
    board = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids)) and board["uid"] and board["schemaVersion"] >= 36
    variables = {variable["name"] for variable in board["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(board["panels"])))
    assert used == variables
    cells = [
        (x, y)
        for panel in board["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) < 24  # No panel lies on another.
