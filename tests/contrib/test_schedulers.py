"""Celery's beat, APScheduler and Django's commands as real processes: one of them acts, it is killed, the next acts."""

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from copies import copies, until

import doyen
from doyen.contrib.apscheduler import WhileLeading
from doyen.contrib.celery import LeaderScheduler
from doyen.errors import ConfigError, LocalProtocolError
from doyen.node.events import LeaderInfo

BEAT = """
import os
from celery import Celery

app = Celery("tasks", broker="memory://")
app.conf.doyen = {
    "group": "beat", "name": os.environ["NAME"], "preset": "local",
    "bind": os.environ["BIND"], "seeds": os.environ["SEEDS"].split(","),
}

@app.task
def tick() -> None: ...

@app.on_after_finalize.connect
def schedule(sender, **_):
    sender.add_periodic_task(0.1, tick.s(), name="tick")

from celery.signals import before_task_publish

@before_task_publish.connect
def published(sender=None, headers=None, **_):
    with open(os.environ["ACTS"], "a") as acts:
        acts.write(os.environ["NAME"] + "\\n")
"""

CLOCK = """
import os, signal, threading
import doyen
from apscheduler.schedulers.background import BackgroundScheduler
from doyen.contrib.apscheduler import WhileLeading

def tick() -> None:
    with open(os.environ["ACTS"], "a") as acts:
        acts.write(os.environ["NAME"] + "\\n")

scheduler = BackgroundScheduler()
scheduler.add_job(tick, "interval", seconds=0.1)
join = dict(name=os.environ["NAME"], preset="local", bind=os.environ["BIND"], seeds=os.environ["SEEDS"].split(","))
with doyen.sync.join("clock", leave_on_sigterm=False, **join) as node, WhileLeading(scheduler, node):
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    stop.wait()
"""

SITE = """
import os, sys, time
from django.conf import settings
from django.core.management import execute_from_command_line

settings.configure(
    INSTALLED_APPS=["doyen.contrib.django", "shop"],
    DOYEN={"group": "shop", "preset": "local", "seeds": os.environ["SEEDS"].split(","), "bind": os.environ["BIND"]},
)
if __name__ == "__main__":
    execute_from_command_line(sys.argv)
"""

JOBS = """
import os, time

def sell(word="function") -> None:
    while True:
        with open(os.environ["ACTS"], "a") as acts:
            acts.write(os.environ["NAME"] + "\\n")
        time.sleep(0.05)
"""

COMMAND = """
from django.core.management.base import BaseCommand
from shop.jobs import sell

class Command(BaseCommand):
    def add_arguments(self, parser):
        parser.add_argument("--word")

    def handle(self, **given):
        print("selling", given["word"], flush=True)
        sell()
"""


@pytest.mark.live
def test_one_beat_of_two_sends_tasks(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(BEAT)
    with copies(tmp_path, "ant", "bee") as made:
        for name in made.addresses:
            scheduler = ["--scheduler", "doyen.contrib.celery:LeaderScheduler", "--schedule", str(tmp_path / name)]
            beat = ["celery", "--app", "tasks", "beat", *scheduler, "--loglevel", "INFO", "--pidfile="]
            made.start(name, [sys.executable, "-m", *beat])
        first, second = made.one_acts_and_the_next_after_it()
        made.running[second].terminate()
        assert made.running[second].wait(10) == 0
        told = [(tmp_path / f"{name}.log").read_text() for name in (first, second)]
        assert all("Sending due task tick" in log for log in told)


class Seat:
    """Stands in for a node: it leads, follows, or knows of no leader, as the test says."""

    name = "ant"

    def __init__(self) -> None:
        self.led_by: str | None = None
        self.left = False

    @property
    def is_leader(self) -> bool:
        return self.led_by == self.name

    @property
    def leader(self) -> LeaderInfo | None:
        return None if self.led_by is None else LeaderInfo(name=self.led_by, term=1, since=0.0)

    def __enter__(self) -> "Seat":
        return self

    def __exit__(self, *_: object) -> None:
        self.left = True


def test_beat_passes_over_what_the_leader_sends_and_sends_what_nobody_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seat, sent = Seat(), []
    monkeypatch.setattr(doyen.sync, "join", lambda group, **_: seat)
    app = Celery("tasks", broker="memory://")
    app.conf.doyen = {"group": "beat"}
    app.conf.beat_schedule = {"hourly": {"task": "tick", "schedule": 3600.0}}
    scheduler = LeaderScheduler(app, schedule_filename=str(tmp_path / "schedule"))
    monkeypatch.setattr(scheduler, "apply_async", lambda entry, **_: sent.append(entry.name))

    def due() -> None:
        scheduler.schedule["hourly"].last_run_at = datetime.now(UTC) - timedelta(hours=2)
        scheduler.populate_heap()

    def ticks() -> int:
        before = len(sent)
        for _ in range(5):
            scheduler.tick()
        return len(sent) - before

    due()
    assert ticks() == 0  # Nobody leads: nothing is sent, nothing is passed over.
    seat.led_by = "ant"
    assert ticks() == 1  # What was due meanwhile, once.
    due()
    seat.led_by = "bee"
    assert ticks() == 0  # Left to bee,
    seat.led_by = "ant"
    assert ticks() == 0  # and not sent again after it.
    scheduler.close()
    assert seat.left


def test_beat_without_a_group_says_what_is_missing(tmp_path: Path) -> None:
    app = Celery("tasks", broker="memory://")
    with pytest.raises(ConfigError, match=r"app\.conf\.doyen"):
        LeaderScheduler(app, schedule_filename=str(tmp_path / "schedule")).tick()


@pytest.mark.live
def test_one_apscheduler_of_three_runs_jobs(tmp_path: Path) -> None:
    (tmp_path / "clock.py").write_text(CLOCK)
    with copies(tmp_path, "ant", "bee", "cat") as made:
        for name in made.addresses:
            made.start(name, [sys.executable, "clock.py"])
        _, second = made.one_acts_and_the_next_after_it()
        made.running[second].terminate()
        assert made.running.pop(second).wait(10) == 0
        before = len(made.acted())
        until(lambda: made.acted(before), "the last one runs no jobs")
        assert "Traceback" not in (tmp_path / f"{second}.log").read_text()


def test_an_apscheduler_in_an_event_loop_runs_while_it_leads() -> None:
    from apscheduler.schedulers.asyncio import AsyncIOScheduler

    ticks: list[bool] = []

    async def main() -> None:
        scheduler = AsyncIOScheduler()
        async with doyen.join("clock", name="ant", preset="local", election="le-s") as node:

            async def tick() -> None:
                ticks.append(node.is_leader)

            scheduler.add_job(tick, "interval", seconds=0.02)
            with pytest.raises(LocalProtocolError, match="event loop"), WhileLeading(scheduler, node):
                pass
            async with WhileLeading(scheduler, node), asyncio.timeout(10):
                while len(ticks) < 3:
                    await asyncio.sleep(0.01)
                await node.resign(cooldown="inf")
                await asyncio.sleep(0.05)
                before = len(ticks)
                await asyncio.sleep(0.1)
                assert len(ticks) == before
        assert all(ticks)

    asyncio.run(main())


@pytest.mark.live
def test_a_command_and_a_function_of_django_run_on_the_leader(tmp_path: Path) -> None:
    commands = tmp_path / "shop" / "management" / "commands"
    commands.mkdir(parents=True)
    for folder in (commands, commands.parent, commands.parent.parent):
        (folder / "__init__.py").touch()
    (tmp_path / "manage.py").write_text(SITE)
    (tmp_path / "shop" / "jobs.py").write_text(JOBS)
    (commands / "sell.py").write_text(COMMAND)
    acts = {"ant": ["sell", "--word", "bread"], "bee": ["--function", "shop.jobs:sell"]}
    with copies(tmp_path, *acts) as made:
        for name, words in acts.items():
            made.start(name, [sys.executable, "manage.py", "onleader", *words], DOYEN_NAME=name)
        _, second = made.one_acts_and_the_next_after_it()
        made.running[second].terminate()
        assert made.running[second].wait(15) == 0
        assert "selling bread" in (tmp_path / "ant.log").read_text()


def test_a_wrong_setting_of_django_is_named() -> None:
    from django.core.management.base import CommandError

    from doyen.contrib.django.management.commands.onleader import Command, variables

    assert variables({"group": "g", "seeds": ["a", "b:1"], "link": False, "swim.period": "1s"}) == {
        "DOYEN_GROUP": "g",
        "DOYEN_SEED": "a,b:1",
        "DOYEN_LINK": "False",
        "DOYEN_SWIM_PERIOD": "1s",
    }
    with pytest.raises(CommandError, match="no field 'sedes': do you mean 'seeds'"):
        variables({"sedes": []})
    given: dict[str, Any] = {"function": None, "call": None}
    with pytest.raises(CommandError, match="give a management command"):
        Command().handle(words=[], **given)
