"""What the how-tos say of several hosts, done as it is written, on a plain install: hosts are network namespaces.

Names resolve late where a page finds others by name.
"""

import json
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from hosts import until
from plain_hosts import HOW_TO, NAMES, PATIENCE_S, SERVES, HostsFor, block, on_hosts, script

from doyen_lab.servers import POSTGRES_BIN, missing

NAMES_LATE_S = 3.0


@on_hosts
@pytest.mark.parametrize("way", ["fixed addresses", "a name in DNS", "something that writes a file", "a network with"])
def test_discover_each_way_of_the_table(way: str, hosts_for: HostsFor, tmp_path: Path) -> None:
    row = next(line for line in (HOW_TO / "discover.md").read_text().splitlines() if line.startswith(f"| {way}"))
    hosts = hosts_for("discover.md")
    first, seeds = hosts.nodes["ant"].ipv4, tmp_path / "seeds"
    given = re.findall(r"`([^`]*)`", row)[0].replace("10.0.0.2", first).replace("/etc/doyen/seeds", str(seeds))
    for name in NAMES:
        hosts.start(name, ["doyen", "run", "--group", "orders", *shlex.split(given), "--", "sh", "-c", SERVES])
    time.sleep(NAMES_LATE_S)
    hosts.name_them(together="orders.internal")
    seeds.write_text(f"# Late.\n{first}:7600\n")
    hosts.one_takes_over_from_the_other("serves")


@on_hosts
def test_cron_asks_first_or_runs_once(hosts_for: HostsFor, tmp_path: Path) -> None:
    hosts = hosts_for("cron.md")
    hosts.name_them()
    ran = tmp_path / "ran"
    job = script(tmp_path / "report", f"echo $HOST >> {ran}")

    def line(containing: str) -> str:
        schedule_and_line = block("cron.md", "text", containing).strip().replace("\\%", "%")
        written = schedule_and_line.split(maxsplit=5)[5]
        return written.replace("/opt/doyen/bin/doyen", str(hosts.bin / "doyen")).replace("/opt/jobs/report", job)

    for name in NAMES:
        seeds = [word for other in NAMES for word in ("--seed", other)]
        hosts.start(name, ["doyen", "agent", "--group", "cron", "--name", name, *seeds], f"{name}-agent")
    until(
        lambda: sum(hosts.ask(name, "doyen leader --group cron --mine").returncode == 0 for name in NAMES) == 1,
        "no host leads",
        PATIENCE_S,
    )
    ran.touch()
    time.sleep(5)  # All three have met.
    ran.write_text("")
    assert sorted(hosts.ask(name, line("--mine")).returncode == 0 for name in NAMES) == [False, False, True]
    assert len(ran.read_text().split()) == 1
    ran.write_text("")
    for name in NAMES:
        hosts.start(name, ["sh", "-c", line("--once")])
    until(lambda: sum(hosts.running.all[name].poll() == 0 for name in NAMES) == 2, "two end without it", PATIENCE_S)
    assert len(ran.read_text().split()) == 1


@on_hosts
def test_systemd_starts_three_voters(hosts_for: HostsFor, tmp_path: Path) -> None:
    hosts = hosts_for("systemd.md")
    keys, state = tmp_path / "keys", "/var/lib/doyen"
    assert hosts.ask("ant", f"doyen keys new --file {keys}").returncode == 0
    (line,) = re.findall(r"^ExecStart=(.*)$", block("systemd.md", "ini"), re.MULTILINE)
    serve = script(tmp_path / "serve", SERVES)
    for name in NAMES:
        config = hosts.folder(name) / "reports.toml"
        text = block("systemd.md", "toml").replace("/etc/doyen/reports.keys", str(keys))
        config.write_text(text.replace(state, str(hosts.folder(name) / "state")))
        moved = {"/opt/doyen/bin/doyen": "doyen", "/etc/doyen/reports.toml": str(config), "/opt/reports/serve": serve}
        began = hosts.ask(name, f"doyen state init --config {config} --name {name}")
        assert began.returncode == 0, began.stderr
        hosts.start(name, [moved.get(word, word) for word in shlex.split(line)], DOYEN_NAME=name)
    time.sleep(NAMES_LATE_S)
    assert not hosts.running.saying("serves")
    hosts.name_them(".example")
    hosts.one_takes_over_from_the_other("serves")


@on_hosts
def test_containers_elect_one_though_their_name_comes_late(hosts_for: HostsFor, tmp_path: Path) -> None:
    hosts = hosts_for("containers.md")
    (line,) = re.findall(r"^ENTRYPOINT (.*)$", block("containers.md", "dockerfile"), re.MULTILINE)
    serve = script(tmp_path / "serve", SERVES)
    for name in NAMES:
        hosts.start(name, [serve if word == "/opt/serve" else word for word in json.loads(line)])
    time.sleep(NAMES_LATE_S)
    assert not hosts.running.saying("serves")
    hosts.name_them(together="reports.internal")
    hosts.one_takes_over_from_the_other("serves")


@on_hosts
def test_django_runs_a_command_on_one_host(hosts_for: HostsFor, tmp_path: Path) -> None:
    hosts = hosts_for("django.md")
    hosts.name_them(".example")
    settings = block("django.md", "text", "DOYEN = ").replace("...,", "")
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "jobs.py").write_text(
        "import os, time\ndef close_day():\n    print(os.environ['HOST'], 'closes', flush=True)\n    time.sleep(120)\n"
    )
    manage = tmp_path / "manage.py"
    manage.write_text(
        f"import sys\nfrom django.conf import settings\nfrom django.core.management import execute_from_command_line\n"
        f"{settings}\nsettings.configure(INSTALLED_APPS=INSTALLED_APPS, DOYEN=DOYEN)\n"
        "execute_from_command_line(sys.argv)\n"
    )
    line = block("django.md", "text", "--function").splitlines()[1].replace("manage.py", str(manage))
    for name in NAMES:
        hosts.start(name, shlex.split(line))
    hosts.one_takes_over_from_the_other("closes")


@on_hosts
def test_celery_beat_sends_from_one_host(hosts_for: HostsFor) -> None:
    hosts = hosts_for("schedulers.md")
    hosts.name_them(".example")
    line = block("schedulers.md", "text", "LeaderScheduler").replace("/var/lib/beat/schedule", "./schedule")
    for name in NAMES:
        (hosts.folder(name) / "doyen_tasks.py").write_text(block("schedulers.md", "python", "app.conf.doyen"))
        hosts.start(name, [*shlex.split(line), "--pidfile=", "--loglevel", "info"], PYTHONPATH=str(hosts.folder(name)))
    hosts.one_takes_over_from_the_other("Sending due task tick")


@on_hosts
def test_doyen_run_starts_beat_on_one_host(hosts_for: HostsFor) -> None:
    hosts = hosts_for("schedulers.md")
    hosts.name_them(".example")
    line = block("schedulers.md", "text", "doyen run").replace("/var/lib/beat/schedule", "./schedule")
    for name in NAMES:
        (hosts.folder(name) / "tasks.py").write_text(block("schedulers.md", "python", "app.conf.doyen"))
        more = ["--pidfile=", "--loglevel", "info"]
        hosts.start(name, [*shlex.split(line), *more], PYTHONPATH=str(hosts.folder(name)))
    hosts.one_takes_over_from_the_other("Sending due task tick")


def of_each_host(page: str, containing: str) -> dict[str, list[str]]:
    """Return the commands of a block that has `host NAME:  COMMAND` on each line."""
    lines = re.findall(r"^host (\w+): +(.*)$", block(page, "text", containing), re.MULTILINE)
    return {name: shlex.split(command) for name, command in lines}


@on_hosts
def test_two_hosts_with_a_witness(hosts_for: HostsFor, tmp_path: Path) -> None:
    commands = of_each_host("two-hosts.md", "doyen witness")
    hosts = hosts_for("two-hosts.md", tuple(commands))
    serve = script(tmp_path / "serve", SERVES)
    assert hosts.names == ("ant", "bee", "wit")

    def start(name: str, *words: str) -> None:
        moved = {"/opt/jobs/serve": serve, "/var/lib/doyen": str(hosts.folder(name) / "state")}
        command = [moved.get(word, word) for word in commands[name]]
        hosts.start(name, [*command[:2], *words, *command[2:]])

    for name in hosts.names:
        start(name, "--newcomer")
    time.sleep(NAMES_LATE_S)
    hosts.name_them()
    until(lambda: hosts.running.saying("serves"), "nobody serves", PATIENCE_S)
    hosts.network.cut_links([(0, 1), (1, 0)])  # The witness grants one.
    time.sleep(6)
    assert len(hosts.leading()) == 1
    hosts.network.mend_links([(0, 1), (1, 0)])
    until(lambda: len(hosts.leading()) == 1, "nobody leads", PATIENCE_S)
    (first,) = hosts.leading()
    hosts.running.kill(first)
    (other,) = {"ant", "bee"} - {first}
    until(lambda: hosts.leading() == [other], f"{other} does not take over", PATIENCE_S)
    hosts.running.log(first).rename(tmp_path / f"{first}.killed")
    start(first)  # From the second start on, without the word.
    until(lambda: hosts.ask(first, "doyen leader").stdout.startswith(other), "it follows", PATIENCE_S)
    hosts.running.kill("wit")
    time.sleep(3)
    assert len(hosts.leading()) == 1  # The hosts go on, as long as they reach each other.


@on_hosts
def test_two_hosts_with_a_directory_and_no_network_between(hosts_for: HostsFor, tmp_path: Path) -> None:
    hosts = hosts_for("two-hosts.md", ("ant", "bee"))
    hosts.network.cut_links([(0, 1), (1, 0)])
    shared = tmp_path / "mnt"
    prepare = re.search(r"^\$ (mkdir -p shared && .*)$", block("two-hosts.md", "console", "mkdir"), re.MULTILINE)
    assert prepare is not None
    hosts.told("ant", prepare[1].replace("shared shared", f"shared {shared}").replace("-p shared", f"-p {shared}"))
    serve = script(tmp_path / "serve", SERVES)
    for name in hosts.names:
        flags = ["--group", "pair2", "--name", name, "--election", "directory", "--shared", str(shared)]
        hosts.start(name, ["doyen", "run", *flags, "--", serve])
    hosts.one_takes_over_from_the_other("serves")


@on_hosts
@pytest.mark.parametrize("way", ["step by step", "its first key"])
def test_keys_are_changed_without_losing_anybody(way: str, hosts_for: HostsFor) -> None:
    hosts = hosts_for("rotate-keys.md")
    hosts.name_them()
    file = "first.keys" if way == "its first key" else "orders.keys"
    lines = [
        line[2:]
        for line in block(
            "rotate-keys.md", "console", "after-clear" if file == "first.keys" else "--step 2"
        ).splitlines()
    ]
    seeds = [word for other in NAMES for word in ("--seed", other)]

    def start(name: str, *flags: str) -> None:
        hosts.start(name, ["doyen", "agent", "--group", "orders", "--name", name, *seeds, *flags])

    def copied() -> None:
        for name in NAMES[1:]:
            beside = hosts.folder(name) / "copied"
            beside.write_bytes((hosts.folder("ant") / file).read_bytes())
            beside.chmod(0o600)
            beside.rename(hosts.folder(name) / file)

    def whole() -> bool:
        told = [hosts.ask(name, "doyen members --json") for name in NAMES]
        if any(answer.returncode for answer in told):
            return False
        members = [json.loads(answer.stdout) for answer in told]
        return len({one["leader"] for one in members} - {None}) == 1 and all(
            sum(member["state"] == "alive" for member in one["members"]) == 3 for one in members
        )

    def stay_whole() -> None:
        """Three seconds after a copy all have read it; and nobody was lost on the way."""
        end = time.monotonic() + 8
        while time.monotonic() < end:
            assert whole(), hosts.running.told()

    if way == "its first key":
        for name in NAMES:
            start(name)
        until(whole, "not whole", PATIENCE_S)
        hosts.told("ant", lines.pop(0))
        copied()
        for name in NAMES:  # One by one.
            hosts.told(name, f"doyen leave --group orders --name {name}")
            hosts.running.all.pop(name).wait(20)
            start(name, "--key-file", file)
            until(whole, "not whole", PATIENCE_S)
    else:
        hosts.told("ant", f"doyen keys new --file {file}")
        copied()
        for name in NAMES:
            start(name, "--key-file", file)
        until(whole, "not whole", PATIENCE_S)
    for line in lines:
        hosts.told("ant", line)
        copied()
        stay_whole()
    assert all(json.loads(hosts.told(name, "doyen members --json"))["sealed"] for name in NAMES)


@on_hosts
def test_a_voter_is_replaced_while_the_group_runs(hosts_for: HostsFor) -> None:
    hosts = hosts_for("replace-voters.md", ("ant", "bee", "cat", "dog"))
    hosts.name_them()
    text = (HOW_TO / "replace-voters.md").read_text()
    (line,) = re.findall(r"^ +(doyen agent .* --newcomer)$", text, re.MULTILINE)
    for name in ("ant", "bee", "cat"):
        hosts.start(name, shlex.split(line.replace("dog", name).replace("DIR", "state").replace("HOST", "ant")))
    until(lambda: len(hosts.leading()) == 1, "nobody leads", PATIENCE_S)
    (leader,) = hosts.leading()
    hosts.start("dog", shlex.split(line.replace("DIR", "state").replace("HOST", leader)))
    until(lambda: hosts.ask("dog", "doyen leader").stdout.startswith(leader), "dog does not follow", PATIENCE_S)
    old = "cat" if leader != "cat" else "bee"
    hosts.running.kill(old)  # It may be gone already.
    elsewhere = next(name for name in ("ant", "bee") if name not in (leader, old))
    refused = hosts.ask(elsewhere, f"doyen voters replace {old} dog")
    assert refused.returncode != 0 and leader in refused.stderr, refused.stderr  # It says where that is.
    hosts.told(leader, f"doyen voters replace {old} dog")
    assert "dog" in hosts.told(leader, "doyen voters") and old not in hosts.told(leader, "doyen voters").split("\n")[0]
    hosts.running.kill(leader)
    until(lambda: len(hosts.leading()) == 1, "dog's vote is not counted", PATIENCE_S)  # Two of three: it takes dog.


@on_hosts
def test_a_baton_goes_from_host_to_host(hosts_for: HostsFor) -> None:
    hosts = hosts_for("hand-on.md")
    hosts.name_them()
    body = block("hand-on.md", "python", "pass_on").partition("with tempfile")[0]
    earnest = body.replace('name="ant"', "name=os.environ['HOST']").replace(
        'voters=["ant"]', 'voters=["ant", "bee", "cat"], seeds=["ant", "bee", "cat"]'
    )
    assert earnest.count('["ant", "bee", "cat"]') == 2 and "os.environ" in earnest
    slow = earnest.replace("row += 1  # The work itself.", "row += 1; print('did', row, flush=True); time.sleep(0.1)")
    program = f"import os, time\n{slow}\nprint('at last', asyncio.run(work('state', until=120)))\n"
    for name in NAMES:
        (hosts.folder(name) / "work.py").write_text(program)
        hosts.start(name, [str(hosts.bin / "python"), "work.py"])
    first = hosts.one_takes_over_from_the_other("did")
    done = [int(row) for row in re.findall(r"did (\d+)", (hosts.running.folder / f"{first}.killed").read_text())]
    (second,) = hosts.running.saying("did")
    went_on = int(re.findall(r"did (\d+)", hosts.running.log(second).read_text())[0])
    assert done[-1] >= 5 and went_on in (done[-1], done[-1] + 1)  # The last step may be repeated, and none is lost.


@on_hosts
def test_fastapi_workers_redirect_to_the_leader(hosts_for: HostsFor) -> None:
    hosts = hosts_for("fastapi.md")
    hosts.name_them()
    page = block("fastapi.md", "python", "Leadership(")
    here = 'url="http://127.0.0.1:8000", preset="local", bind="127.0.0.1:0"'
    assert here in page
    for name in NAMES:
        url = f'url="http://{name}:8000", seeds=["ant", "bee", "cat"]'
        (hosts.folder(name) / "app.py").write_text(page.replace(here, url))
        hosts.start(name, ["uvicorn", "app:app", "--host", "0.0.0.0", "--port", "8000"])
    ask = "curl -s -m 5"

    def here_leads(name: str) -> bool:
        return '"here":true' in hosts.ask(name, f"{ask} http://{name}:8000/status").stdout

    until(lambda: sum(map(here_leads, NAMES)) == 1, "nobody leads", PATIENCE_S)
    first = next(filter(here_leads, NAMES))
    (other, third) = [name for name in NAMES if name != first]
    answer = hosts.told(other, f"{ask} -i -X POST http://{third}:8000/orders").lower()
    assert " 307 " in answer and f"location: http://{first}:8000/orders" in answer
    assert '"orders":' in hosts.told(other, f"{ask} -L -X POST http://{third}:8000/orders")
    hosts.running.kill(first)
    until(lambda: here_leads(other) != here_leads(third), "nobody takes over", PATIENCE_S)
    assert '"orders":' in hosts.told(other, f"{ask} -L -X POST http://{third}:8000/orders")


@on_hosts
def test_a_postgresql_decides_between_two_hosts_that_do_not_see_each_other(hosts_for: HostsFor, tmp_path: Path) -> None:
    if reason := missing("postgresql"):
        pytest.skip(f"{reason} (make engines installs it)")
    commands = of_each_host("engine.md", "postgresql://money@db/money")
    hosts = hosts_for("engine.md", (*commands, "db"))
    hosts.name_them()
    data = Path(tempfile.mkdtemp(prefix="doyen-db-")) / "data"  # Its user may not look into the test's own folder.
    try:
        shutil.chown(data.parent, "postgres")
        (programs,) = sorted(Path(POSTGRES_BIN).glob("*/bin"))[-1:]
        initialize = [f"{programs}/initdb", "-D", str(data), "-U", "money", "-A", "trust", "-N"]
        subprocess.run(initialize, user="postgres", cwd=data.parent, check=True, capture_output=True)
        with (data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all 0.0.0.0/0 trust\n")
        address = hosts.nodes["db"].ipv4
        settings = ["-c", f"listen_addresses={address}", "-c", "unix_socket_directories=", "-c", "fsync=off"]
        become = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        hosts.start("db", [*become, f"{programs}/postgres", "-D", str(data), *settings])
        create = f"{programs}/psql -h {address} -U money -d postgres -c 'CREATE DATABASE money'"
        until(lambda: hosts.ask("db", create).returncode == 0, "no database", PATIENCE_S)
        serve = script(tmp_path / "serve", SERVES)
        for name, words in commands.items():
            hosts.start(name, [serve if word == "/opt/jobs/serve" else word for word in words])
        until(lambda: hosts.running.saying("serves"), "nobody serves", PATIENCE_S)
        hosts.network.cut_links([(0, 1), (1, 0)])
        time.sleep(8)
        assert len([name for name in commands if name in hosts.leading()]) == 1
        hosts.network.mend_links([(0, 1), (1, 0)])
        hosts.one_takes_over_from_the_other("serves")
    finally:
        hosts.running.close()
        shutil.rmtree(data.parent)
