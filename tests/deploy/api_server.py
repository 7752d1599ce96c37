"""Stands in for a Kubernetes API server with one EndpointSlice: `python api_server.py HOST FILE`.

FILE holds the slice, and changes with it.  As the real one does, it refuses a token that it does not know, every other
object, and an update of a version that is not the latest.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

TOKEN, PATH = "account-token", "/apis/discovery.k8s.io/v1/namespaces/prod/endpointslices/reports-leader"


class Handler(BaseHTTPRequestHandler):
    file: Path

    def do_GET(self) -> None:
        self._answer(json.loads(self.file.read_text()))

    def do_PUT(self) -> None:
        given = json.loads(self.rfile.read(int(self.headers["content-length"])))
        held = json.loads(self.file.read_text())
        if given["metadata"].get("resourceVersion") != held["metadata"]["resourceVersion"]:
            self.send_error(409)
            return
        given["metadata"]["resourceVersion"] = str(int(held["metadata"]["resourceVersion"]) + 1)
        beside = self.file.with_suffix(".new")
        beside.write_text(json.dumps(given))
        os.replace(beside, self.file)
        self._answer(given)

    def _answer(self, value: object) -> None:
        if self.headers["authorization"] != f"Bearer {TOKEN}":
            self.send_error(401)
        elif self.path != PATH:
            self.send_error(403)
        else:
            body = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


if __name__ == "__main__":
    Handler.file = Path(sys.argv[2])
    server = HTTPServer((sys.argv[1], int(os.environ.get("PORT", "6443"))), Handler)
    if "TOLD" in os.environ:
        Path(os.environ["TOLD"]).write_text(str(server.server_port))
    server.serve_forever()
