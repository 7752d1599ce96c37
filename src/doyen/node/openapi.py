"""The OpenAPI document of a node's HTTP, made from the types of its answers.  Loaded when it is asked for."""

from typing import Any, Final

import msgspec
from msgspec import Struct

from doyen import __version__
from doyen.node.answers import Health, Index, Leader, Live, Members, Problem, Ready
from doyen.node.metrics import OPENMETRICS, TEXT

_JSON: Final = "application/json"
_TEXT: Final[dict[str, Any]] = {"schema": {"type": "string"}}
_ELECTION: Final = {
    "name": "election",
    "in": "query",
    "description": "An election of this node by its name; by default the group's own.",
    "schema": {"type": "string", "default": ""},
}


class _Path(Struct, frozen=True):
    """One path: its summary and its answers."""

    summary: str
    codes: dict[int, str]  # The answers besides the refusals, and what they mean.
    answer: type[Struct] | None = None
    content: dict[str, Any] = {}  # Where the answer is no JSON.
    parameters: tuple[dict[str, Any], ...] = ()
    is_probe: bool = False


_PATHS: Final = {
    "/": _Path("The paths that are served", {200: "The paths"}, Index),
    "/leader": _Path(
        "Who leads: 200 on the leader, 503 elsewhere, for load balancers",
        {200: "This node leads", 503: "Another node leads, or nobody does"},
        Leader,
        parameters=(_ELECTION,),
    ),
    "/members": _Path("Who is here", {200: "The members that this node knows"}, Members),
    "/health": _Path(
        "Whether the node takes part in its group", {200: "It does", 503: "It has failed, or it is leaving"}, Health
    ),
    "/livez": _Path("Liveness probe", {200: "The node has not failed", 503: "It has"}, Live, is_probe=True),
    "/readyz": _Path(
        "Readiness probe: says nothing of who leads",
        {200: "The node has joined", 503: "It has heard nobody yet, and names no leader"},
        Ready,
        is_probe=True,
    ),
    "/events": _Path(
        "Server-sent events: `present` and what holds, then `elected`, `lost`, `member`",
        {200: "A stream that lasts as long as the connection"},
        content={"text/event-stream": _TEXT},
    ),
    "/metrics": _Path(
        "Metrics for Prometheus, by the Accept header", {200: "The metrics"}, content={TEXT: _TEXT, OPENMETRICS: _TEXT}
    ),
    "/openapi.json": _Path("This document", {200: "It"}, content={_JSON: {"schema": {"type": "object"}}}),
}


def document() -> bytes:
    """Return the document as JSON."""
    answers = [path.answer for path in _PATHS.values() if path.answer is not None]
    refs, schemas = msgspec.json.schema_components([*answers, Problem], ref_template="#/components/schemas/{name}")
    ref = dict(zip(answers, refs, strict=False))
    problem = {_JSON: {"schema": refs[-1]}}
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "doyen",
                "version": __version__,
                "description": "One node of a group, read only. Every path answers HEAD, too.",
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "paths": {name: {"get": _operation(name, path, ref, problem)} for name, path in _PATHS.items()},
            "components": {
                "schemas": schemas,
                "securitySchemes": {
                    "token": {"type": "http", "scheme": "bearer", "description": "Where the node has an http_token."}
                },
            },
        }
    )


def _operation(name: str, path: _Path, ref: dict[type[Struct], Any], problem: dict[str, Any]) -> dict[str, Any]:
    content = path.content if path.answer is None else {_JSON: {"schema": ref[path.answer]}}
    responses = {str(code): {"description": text, "content": content} for code, text in path.codes.items()}
    refusals = {401: "The token is missing or wrong", 403: "Asked for by a name, or only probes are served here"}
    if path.parameters:
        refusals[404] = "No such election here"
    if name == "/events":
        refusals[503] = "Too many watch already"
    responses |= {str(code): {"description": text, "content": problem} for code, text in refusals.items()}
    operation = {
        "operationId": name.strip("/").partition(".")[0] or "index",
        "summary": path.summary,
        "responses": responses,
        "security": [{}, {"token": []}],
    }
    if path.is_probe:
        operation["description"] = "With http_open it is answered without the token."
    return operation | ({"parameters": list(path.parameters)} if path.parameters else {})
