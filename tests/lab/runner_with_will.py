"""A runner without a node: one guarded command, and a will whose datagrams come to the test.

`python runner_with_will.py PORT MUTANT COMMAND…` with "sound" for none.  It keeps the command for as long as it
may, and a new line on its standard input ends it in order.
"""

import asyncio
import os
import sys
import time
from pathlib import Path

from doyen.core.clock import seconds
from doyen.net.will import Will
from doyen.runner import guard
from doyen.runner.ward import Ward


async def main(port: int, command: list[str]) -> None:
    until = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + seconds(60)
    will = Will()
    will.write(until, ("127.0.0.1", 0), [[("127.0.0.1", port, b"%d" % number)] for number in range(3)])
    ward = Ward(command, grace=seconds(1) // 5, lease=seconds(60), will=will)
    await ward.start(1, until)
    await asyncio.to_thread(sys.stdin.readline)
    ward.stop()
    await ward.ended()
    will.revoke()
    await ward.dismiss()


if __name__ == "__main__":
    if sys.argv[2] != "sound":
        os.environ |= {"DOYEN_SOUND_GUARD": str(guard.__file__), "DOYEN_MUTANT": sys.argv[2]}
        guard.__file__ = str(Path(__file__).with_name("mutant_guards.py"))
    asyncio.run(main(int(sys.argv[1]), sys.argv[3:]))
