"""What an agent weighs with everything on that a user is likely to switch on."""

import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from doyen.net.keys import write_keys

pytestmark = pytest.mark.live

RSS_MAX = 26_000_000  # Bytes; measured 24.2 to 24.9 MB when this was written.


ELECTIONS = {
    "announce": (),
    "hybrid": (),
    "spanning": (),
    "by-key": (),
    "pole": ("--voters", "ant", "--volatile"),
}


@pytest.mark.parametrize("election", ELECTIONS)
def test_an_agent_with_http_and_a_key_stays_below_its_weight(tmp_path: Path, election: str, capsys) -> None:  # type: ignore[no-untyped-def]
    write_keys(tmp_path / "keys", [bytes(32)])
    command = [sys.executable, "-m", "doyen", "agent", "--group", "weight", "--name", "ant", "--election", election]
    command += ["--key-file", str(tmp_path / "keys"), "--http", "127.0.0.1:0", "--status-every", "0.2"]
    command += ELECTIONS[election]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as agent:
        try:
            assert agent.stdout is not None
            started = next(told for told in map(json.loads, agent.stdout) if told["event"] == "started")
            for path in ("/metrics", "/members", "/health"):
                urllib.request.urlopen(started["http"] + path, timeout=10).read()
            until = time.monotonic() + 2
            while time.monotonic() < until:
                agent.stdout.readline()
            status = Path(f"/proc/{agent.pid}/status").read_text()
        finally:
            agent.terminate()
    rss = int(status.split("VmRSS:")[1].split()[0]) * 1024
    with capsys.disabled():
        print(f"\nagent, {election}, key and HTTP: {rss / 1e6:.1f} MB resident")
    assert rss < RSS_MAX
