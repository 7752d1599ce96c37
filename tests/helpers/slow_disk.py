"""A member whose disk is slow: python slow_disk.py SECONDS JOIN.  Each flush to the disk takes so much longer."""

import os
import runpy
import sys
import time

delay_s, flush = float(sys.argv.pop(1)), os.fsync


def slowly(file: int) -> None:
    time.sleep(delay_s)
    flush(file)


os.fsync = slowly  # type: ignore[assignment]
runpy.run_module("doyen_lab.contest.will_member", run_name="__main__")
