"""Point a Kubernetes service at this pod, then become the leader's program.

    doyen run -- python3 leader_endpoint.py [--fenced] SLICE PORT -- PROGRAM [ARGUMENT…]

`doyen run` starts this on the leader only.  SLICE is an EndpointSlice of a service without a selector; its one
endpoint becomes this pod's address (POD_IP).  A second process looks at it again every few seconds for as long as the
program runs, and writes it again if somebody else did: after a partition the leader that stays is found.

With --fenced (for quorum elections, whose terms never go back) a slice that was written in a later term is left
alone, and the program is not started.  Needs nothing but Python's standard library, and a service account that may
get and update that slice.
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
EVERY_S = float(os.environ.get("LEADER_ENDPOINT_EVERY_S", "3"))
PATIENCE_S = 30.0  # For the first write; then `doyen run` is told that it failed.
TERM = "doyen/term"
FAILURES = (HTTPError, URLError, TimeoutError, OSError, ValueError)


class Slice:
    """The slice, as the API server has it."""

    def __init__(self, name: str, port: int, *, fenced: bool) -> None:
        host, at = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        server = os.environ.get("KUBERNETES_API", f"https://{f'[{host}]' if ':' in host else host}:{at}")
        namespace = (ACCOUNT / "namespace").read_text().strip()
        self.url = f"{server}/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices/{name}"
        self.name, self.port, self.fenced = name, port, fenced
        self.address, self.term = os.environ["POD_IP"], int(os.environ["DOYEN_TERM"])

    def point_here(self) -> bool:
        """Write this pod's address, unless it is there; return False if a later term has written."""
        found = self._call()
        notes = found["metadata"].setdefault("annotations", {})
        if self.fenced and int(notes.get(TERM, 0)) > self.term:
            return False
        first = (found.get("ports") or [{}])[0]
        ports = [{"protocol": "TCP", **first, "port": self.port}]
        endpoints = [{"addresses": [self.address], "conditions": {"ready": True}}]
        held = [endpoint.get("addresses") for endpoint in found.get("endpoints") or ()]
        if held != [[self.address]] or notes.get(TERM) != str(self.term):
            notes[TERM] = str(self.term)
            self._call(found | {"ports": ports, "endpoints": endpoints})  # Refused if written since it was read.
        return True

    def _call(self, body: Any = None) -> Any:
        """Ask the API server; the token is read again each time, for it is replaced while the pod runs."""
        token = (ACCOUNT / "token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        trusted = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt")) if self.url[:6] == "https:" else None
        request = Request(self.url, data=data, headers=headers, method="GET" if data is None else "PUT")
        with urlopen(request, timeout=5, context=trusted) as reply:
            return json.load(reply)


def write_first(held: Slice) -> None:
    """Write the slice before the program begins; end where that cannot be, or must not."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            if held.point_here():
                return
            sys.exit(
                f"leader_endpoint: {held.name} was written in a later term than {held.term}: not started. "
                f"If the voters' disks were lost: kubectl annotate endpointslice {held.name} {TERM}-"
            )
        except FAILURES as error:
            refused = isinstance(error, HTTPError) and error.code in (401, 403, 404)
            if refused or time.monotonic() > until:
                sys.exit(f"leader_endpoint: cannot write {held.name}: {error}")
            time.sleep(0.2)


def keep(held: Slice, program: int) -> None:
    """Write the slice again whenever it names somebody else, while the program runs."""
    while os.getppid() == program:
        time.sleep(EVERY_S)
        try:
            if os.getppid() == program and not held.point_here():
                return
        except FAILURES as error:
            print(f"leader_endpoint: cannot look at {held.name}: {error}", file=sys.stderr, flush=True)


def main() -> None:
    words = sys.argv[1:]
    fenced = words[:1] == ["--fenced"]
    if len(words) < fenced + 4 or words[fenced + 2] != "--":
        sys.exit("usage: leader_endpoint.py [--fenced] SLICE PORT -- PROGRAM [ARGUMENT…]")
    name, port, _, *program = words[fenced:]
    held = Slice(name, int(port), fenced=fenced)
    write_first(held)
    me = os.getpid()
    if os.fork() == 0:
        keep(held, me)
        os._exit(0)
    os.execvp(program[0], program)


if __name__ == "__main__":
    main()
