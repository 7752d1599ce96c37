"""A program that leads by a store: engine_member.py HOW NAME URL.  HOW is ours, advisory-lock or redis-lock.

The recipes are as their manuals have them.  It says, a JSON line each: `acts`, `stops`.
"""

import json
import sys
import time
from contextlib import suppress


def say(event: str) -> None:
    print(json.dumps({"event": event, "clock": time.clock_gettime_ns(time.CLOCK_BOOTTIME)}), flush=True)


def ours(name: str, url: str) -> None:
    import asyncio

    import doyen

    async def main() -> None:
        async with doyen.join("contest", name=name, preset="lan", will=True, election=doyen.Engine(url)) as node:
            async for term in node.terms():
                async with term:
                    say("acts")
                    await asyncio.Event().wait()
                say("stops")

    asyncio.run(main())


def advisory_lock(name: str, url: str) -> None:
    """Lead while a session holds an advisory lock."""
    import psycopg

    while True:
        with suppress(psycopg.Error), psycopg.connect(url, autocommit=True) as connection:
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

    lock = redis.Redis.from_url(url, socket_timeout=5).lock("contest", timeout=10, sleep=0.1)
    while True:
        with suppress(RedisError):
            lock.acquire()
            say("acts")
            while True:
                time.sleep(3)
                lock.reacquire()
        say("stops")


{"ours": ours, "advisory-lock": advisory_lock, "redis-lock": redis_lock}[sys.argv[1]](*sys.argv[2:])
