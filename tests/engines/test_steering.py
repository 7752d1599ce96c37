"""`doyen steer`: when a store's leader moves, and what etcd's servers say of themselves."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from click.testing import CliRunner

from doyen.cli import app
from doyen.core.clock import seconds
from doyen.engines.steering import Look, Steering
from doyen.score.oracles import ORACLES

# [POLE §4] Deployment 1: round trips in ms.
CENTRE = {"p1": "D3", "p2": "D2", "p3": "D2", "p4": "D1", "p5": "D1"}
BETWEEN = {frozenset(["D1", "D2"]): 9.88, frozenset(["D1", "D3"]): 77.06, frozenset(["D2", "D3"]): 53.26}
RTT = {a: {b: BETWEEN.get(frozenset((CENTRE[a], CENTRE[b])), 0.0) for b in CENTRE if b != a} for a in CENTRE}
EVEN = {"p1": 4.0, "p2": 2.0, "p3": 2.0, "p4": 2.0, "p5": 2.0}


def look(leader: str | None, **changed: Any) -> Look:
    return Look(**{"leader": leader, "servers": tuple(CENTRE), "rtt_ms": RTT, "rates": EVEN} | changed)


def steering(oracle: str = "latency", *, looks: int = 1, margin: float = 0.1) -> Steering:
    return Steering(ORACLES[oracle], margin=margin, looks=looks, cooldown=seconds(60))


def test_pole_4_the_latency_oracle_moves_p5s_leadership_to_the_second_data_centre() -> None:
    verdict = steering().look(look("p5"), 0)
    assert verdict.move_to == "p2"
    found = {name: round(score, 2) for name, score in verdict.scores.items() if score is not None}
    assert found == {"p1": 96.7, "p2": 30.93, "p3": 30.93, "p4": 38.86, "p5": 38.86}


def test_a_leader_that_is_as_good_as_the_best_stays() -> None:
    assert steering().look(look("p3"), 0).move_to is None
    assert steering(margin=0.3).look(look("p5"), 0).move_to is None


def test_a_move_needs_several_looks_one_after_the_other() -> None:
    patient = steering(looks=2)
    assert patient.look(look("p5"), 0).move_to is None
    assert patient.look(look("p2"), 1).move_to is None
    assert patient.look(look("p5"), 2).move_to is None
    assert patient.look(look("p5"), 3).move_to == "p2"


def test_after_a_move_the_next_one_waits() -> None:
    hasty = steering()
    assert hasty.look(look("p5"), 0).move_to == "p2"
    hasty.tried(0)
    assert hasty.look(look("p5"), seconds(59)).move_to is None
    assert hasty.look(look("p5"), seconds(60)).move_to == "p2"


def test_a_server_that_says_nothing_is_not_chosen_and_an_unknown_leader_stays() -> None:
    without = {name: found for name, found in RTT.items() if name not in ("p2", "p3")}
    assert steering().look(look("p1", rtt_ms=without), 0).move_to == "p4"
    assert steering().look(look("p2", rtt_ms=without), 0).move_to is None
    assert steering().look(look(None), 0).move_to is None
    few = {name: {} for name in RTT}
    assert steering().look(look("p5", rtt_ms=few), 0).move_to is None


def test_by_requests_the_busiest_leads() -> None:
    assert steering("request").look(look("p5"), 0).move_to == "p1"


# Made-up servers that answer as etcd 3.4 does.


class Made(BaseHTTPRequestHandler):
    """One server; the class attributes are the cluster's."""

    leader = 5
    moves: list[tuple[int, int]] = []
    ports: dict[int, int] = {}  # By id.
    refuses = False

    @property
    def own(self) -> int:
        return self.ports[self.server.server_address[1]]  # type: ignore[index]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        cls = type(self)
        answer: dict[str, Any] = {"header": {"member_id": str(self.own)}, "leader": str(cls.leader)}
        status = 200
        if self.path.endswith("member/list"):
            answer["members"] = [{"ID": str(own), "name": f"p{own}"} for own in sorted(cls.ports.values())]
        elif self.path.endswith("transfer-leadership"):
            cls.moves.append((self.own, int(body["targetID"])))
            if cls.refuses:
                status, answer = 400, {"error": "etcdserver: not leader"}
        self._answer(status, json.dumps(answer))

    def do_GET(self) -> None:
        lines = [
            f'grpc_server_started_total{{grpc_method="Put",grpc_service="etcdserverpb.KV"}} {EVEN[f"p{self.own}"]}'
        ]
        for to, rtt in RTT[f"p{self.own}"].items():
            lines += [f'etcd_network_peer_round_trip_time_seconds_sum{{To="{int(to[1:]):x}"}} {rtt * 3 / 1000}']
            lines += [f'etcd_network_peer_round_trip_time_seconds_count{{To="{int(to[1:]):x}"}} 3']
        self._answer(200, "\n".join(lines) + "\n")

    def _answer(self, status: int, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def cluster(*, refuses: bool = False) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    cls = type("Cluster", (Made,), {"moves": [], "ports": {}, "refuses": refuses})
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), cls) for _ in range(5)]
    for own, server in enumerate(servers, start=1):
        cls.ports[server.server_address[1]] = own  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield "etcd://" + ",".join(f"127.0.0.1:{server.server_address[1]}" for server in servers), cls.moves  # type: ignore[attr-defined]
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


def test_the_command_asks_the_leader_to_hand_over() -> None:
    with cluster() as (url, moves):
        done = CliRunner().invoke(app, ["steer", "etcd", url, "--once", "--json"])
        assert done.exit_code == 0, done.output
        said = json.loads(done.stdout)
        assert (said["leader"], said["move_to"], said["result"]) == ("p5", "p2", "moved")
        assert said["scores"]["p2"] == pytest.approx(30.927, abs=0.01)
        assert moves == [(5, 2)]


def test_a_dry_run_moves_nothing_and_a_refusal_is_told() -> None:
    with cluster() as (url, moves):
        done = CliRunner().invoke(app, ["steer", "etcd", url, "--once", "--dry-run"])
        assert "p5 → p2 · dry run" in done.output and not moves
    with cluster(refuses=True) as (url, moves):
        done = CliRunner().invoke(app, ["steer", "etcd", url, "--once"])
        assert "refused" in done.output and "not leader" in done.output and moves == [(5, 2)]


def test_servers_that_are_not_there_are_named_and_the_others_asked() -> None:
    with cluster() as (url, moves):
        done = CliRunner().invoke(app, ["steer", "etcd", f"{url},127.0.0.1:1", "--once"])
        assert done.exit_code == 0 and "127.0.0.1:1 is left out" in done.output and moves == [(5, 2)]
