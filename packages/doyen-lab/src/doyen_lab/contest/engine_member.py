"""A program that leads by a store: engine_member.py HOW NAME URL.  HOW is ours, no-will, advisory-lock or redis-lock.

The recipes are as their manuals have them.  It says, a JSON line each: `candidate` once it can take over, `acts`,
`stops`.
"""

import json
import sys
import time
from contextlib import suppress


def say(event: str) -> None:
    print(json.dumps({"event": event, "clock": time.clock_gettime_ns(time.CLOCK_BOOTTIME)}), flush=True)


def ours(name: str, url: str, *, will: bool = True) -> None:
    import asyncio

    import doyen

    async def main() -> None:
        async with doyen.join("contest", name=name, preset="lan", will=will, election=doyen.Engine(url)) as node:
            await node.wait_for_members(3)
            await node.wait_for_leader()
            say("candidate")
            async for term in node.terms():
                async with term:
                    say("acts")
                    await asyncio.Event().wait()
                say("stops")

    asyncio.run(main())


def no_will(name: str, url: str) -> None:
    ours(name, url, will=False)


def advisory_lock(name: str, url: str) -> None:
    """Lead while a session holds an advisory lock."""
    import psycopg

    while True:
        with suppress(psycopg.Error), psycopg.connect(url, autocommit=True) as connection:
            say("candidate")
            connection.execute("SELECT pg_advisory_lock(1)")
            say("acts")
            while True:
                time.sleep(1)
                connection.execute("SELECT 1")  # Else it would not learn that its session is lost.
        say("stops")


def redis_lock(name: str, url: str) -> None:
    """Lead by redis-py's Lock: it ends after 10 s, is extended every 3 s, and is asked for every 100 ms."""
    import redis
    from redis.exceptions import RedisError

    client = redis.Redis.from_url(url, socket_timeout=5)
    lock = client.lock("contest", timeout=10, sleep=0.1)
    while True:
        with suppress(RedisError):
            client.ping()
            say("candidate")
            lock.acquire()
            say("acts")
            while True:
                time.sleep(3)
                lock.reacquire()
        say("stops")


HOWS = {"ours": ours, "no-will": no_will, "advisory-lock": advisory_lock, "redis-lock": redis_lock}
HOWS[sys.argv[1]](*sys.argv[2:])
