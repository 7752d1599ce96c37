"""Reads what deploy/ has: documents of YAML files, and the containers of a manifest as a kubelet would start them."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def documents(path: Path) -> list[dict[str, Any]]:
    return list(YAML(typ="safe").load_all(path.read_text()))


def of_kind(path: Path, *kinds: str) -> dict[str, Any]:
    (found,) = [document for document in documents(path) if document["kind"] in kinds]
    return found


class Pod(NamedTuple):
    """What is known of a pod once it is scheduled."""

    name: str
    ip: str
    secrets: Mapping[str, str]  # The secret's values, by key.
    paths: Mapping[str, Path]  # Where a path of the container is on this machine.


def started(container: dict[str, Any], pod: Pod) -> tuple[list[str], dict[str, str]]:
    """Return a container's command line and environment, as a kubelet makes them for that pod."""
    environment: dict[str, str] = {}
    fields = {"metadata.name": pod.name, "status.podIP": pod.ip}
    for entry in container["env"]:
        source = entry.get("valueFrom", {})
        if "fieldRef" in source:
            value = fields[source["fieldRef"]["fieldPath"]]
        elif "secretKeyRef" in source:
            value = pod.secrets[source["secretKeyRef"]["key"]]
        else:
            value = re.sub(r"\$\((\w+)\)", lambda found: environment[found[1]], entry["value"])
        environment[entry["name"]] = value
    words = [*container["command"], *container["args"]]
    return [_moved(word, pod.paths) for word in words], {
        name: _moved(value, pod.paths) for name, value in environment.items()
    }


def _moved(text: str, paths: Mapping[str, Path]) -> str:
    for inside, outside in paths.items():
        if text == inside or text.startswith(f"{inside}/"):
            return f"{outside}{text[len(inside) :]}"
    return text


def containers(path: Path, of: str = "containers") -> Iterator[dict[str, Any]]:
    for document in documents(path):
        template = document.get("spec", {}).get("template")
        if template:
            yield from template["spec"].get(of, ())
