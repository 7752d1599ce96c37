"""Point a Kubernetes service at this pod, then become the leader's program.

    doyen run -- python3 leader_endpoint.py SLICE PORT -- PROGRAM [ARGUMENT…]

`doyen run` starts this on the leader only.  SLICE is an EndpointSlice of a service without a selector; its one
endpoint becomes this pod's address (POD_IP), and its annotation the term (DOYEN_TERM).  A greater term that is there
already stays: this process was elected before that one, and ends.  Needs nothing but Python's standard library, and a
service account that may get and update that slice.
"""

import json
import os
import ssl
import sys
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

ACCOUNT = Path(os.environ.get("SERVICE_ACCOUNT_DIR", "/var/run/secrets/kubernetes.io/serviceaccount"))
TERM = "doyen/term"
PATIENCE_S = 30.0


def call(url: str, body: Any = None) -> Any:
    """Ask the API server; the token is read again each time, for it is replaced while the pod runs."""
    token = (ACCOUNT / "token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    trusted = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt")) if url.startswith("https:") else None
    request = Request(url, data=data, headers=headers, method="GET" if data is None else "PUT")
    with urlopen(request, timeout=5, context=trusted) as reply:
        return json.load(reply)


def pointed_here(found: dict[str, Any], address: str, port: int, term: int) -> dict[str, Any] | None:
    """Return the slice with this pod as its endpoint; None where a later leader has written it."""
    notes = found["metadata"].setdefault("annotations", {})
    if int(notes.get(TERM, 0)) > term:
        return None
    notes[TERM] = str(term)
    first = (found.get("ports") or [{}])[0]
    found["ports"] = [{"protocol": "TCP", **first, "port": port}]
    found["endpoints"] = [{"addresses": [address], "conditions": {"ready": True}}]
    return found


def main() -> None:
    name, port, dashes, *program = sys.argv[1:]
    if dashes != "--" or not program:
        sys.exit("usage: leader_endpoint.py SLICE PORT -- PROGRAM [ARGUMENT…]")
    host, at = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    server = os.environ.get("KUBERNETES_API", f"https://{f'[{host}]' if ':' in host else host}:{at}")
    namespace = (ACCOUNT / "namespace").read_text().strip()
    url = f"{server}/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices/{name}"
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            wanted = pointed_here(call(url), os.environ["POD_IP"], int(port), int(os.environ["DOYEN_TERM"]))
            if wanted is None:
                sys.exit(f"leader_endpoint: {name} was written in a later term: not started")
            call(url, wanted)  # Its resourceVersion is the one that was read: written in between, it is refused.
            break
        except (HTTPError, URLError, TimeoutError) as error:
            told = error.code if isinstance(error, HTTPError) else error
            if told in (401, 403, 404) or time.monotonic() > until:
                sys.exit(f"leader_endpoint: cannot write {name}: {error}")
            time.sleep(0.2)
    os.execvp(program[0], program)


if __name__ == "__main__":
    main()
