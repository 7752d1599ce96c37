"""A leader that checks its lease, is stopped before it writes, and writes when it is continued.

usage: zombie.py KIND WHERE TRIES LEASE_S FENCED
Each line of its output says how one write went: accepted or refused.
"""

import os
import signal
import sys
import time

from writers import opened, writer

kind, where, tries, lease_s, fenced = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), sys.argv[5] == "1"
write = writer(opened(kind, where), fenced=fenced)
for i in range(tries):
    term = 2 * i + 1
    sys.stdin.readline()
    write(term, f"first of {term}")
    while True:
        lease_end = time.monotonic() + lease_s
        if time.monotonic() < lease_end:  # Else the machine stalled just here, and the lease is renewed.
            break
    os.kill(os.getpid(), signal.SIGSTOP)  # It has seen that it leads, and is stopped before it acts.
    print("accepted" if write(term, f"late of {term}") else "refused", flush=True)
