"""The watchdog of one command: a process of its own, so that the command ends whatever becomes of the runner.

    runner ──"until NS" (the lease), "stop"──▶ guard ──fork, own session──▶ command and its children
           ◀──"pid N", "term WHY", "exit N", or "late": it was not begun──

The guard is the command's parent.  It ends the command's whole process group, by SIGTERM and then SIGKILL,
    when the runner says so,
    when the runner is gone (its end of the pipe closes, also by SIGKILL),
    when the lease is about to end and was not renewed: SIGTERM `notice` before, SIGKILL `margin` before its end.
If the guard itself is killed, the kernel kills the command (PR_SET_PDEATHSIG), and its shadow, a process that waits for
nothing else, the command's group: also where the runner is paused, or gone as well.

Nothing but the standard library, and little of it: it must start fast and weigh nothing.
"""

import ctypes
import os
import select
import signal
import sys
import time
from contextlib import suppress

PR_SET_PDEATHSIG = 1
FOREVER = 1 << 62


def now() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Guard:
    """Times are CLOCK_BOOTTIME in nanoseconds, the runner's own clock."""

    def __init__(self, orders: int, words: int, until: int, grace: int, notice: int, margin: int) -> None:
        self.orders, self.words = orders, words
        self.until, self.grace, self.notice, self.margin = until, grace, notice, margin
        self.pid = 0
        self.stop_at = FOREVER  # When SIGKILL follows, once SIGTERM was sent.
        self.buffer = b""
        self.runner_gone = False
        self.shadow = -1  # Where to tell it.

    def run(self, command: list[str]) -> int:
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        os.set_blocking(wake_read, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)  # Its orders come by the pipe.
        if select.select([self.orders], [], [], 0)[0]:
            self.hear()  # While we started, the lease may have been renewed, or the runner gone.
        if self.runner_gone or self.stop_at < FOREVER or now() >= self.until - self.margin:
            self.say(b"late\n")
            return 75
        self.shadow = self.start_shadow()
        self.pid = self.start(command)
        self.tell_shadow(self.pid)
        self.say(b"pid %d\n" % self.pid)
        while True:
            code = self.reaped()
            if code is not None:
                self.say(b"exit %d\n" % code)
                return code
            self.watch_deadlines()
            wait_s = max(0, min(self.next_deadline() - now(), 10**9)) / 1e9
            wanted = [wake_read] if self.runner_gone else [wake_read, self.orders]
            ready, _, _ = select.select(wanted, [], [], wait_s)
            if wake_read in ready:
                os.read(wake_read, 4096)
            if self.orders in ready:
                self.hear()

    def start_shadow(self) -> int:
        """It learns by the end of a pipe that the guard is no more, and ends the group last named in it."""
        told, tell = os.pipe()
        if os.fork():
            os.close(told)
            return tell
        os.setsid()
        signal.set_wakeup_fd(-1)
        for end in (tell, self.orders, self.words):
            os.close(end)
        while words := os.read(told, 256):
            self.pid = int(words.split()[-1])
        if self.pid:
            self.kill(signal.SIGKILL)
        os._exit(0)

    def tell_shadow(self, pid: int) -> None:
        """Which group is to be ended; 0: none any more."""
        with suppress(OSError):  # It was killed: then there is none.
            os.write(self.shadow, b"%d\n" % pid)

    def start(self, command: list[str]) -> int:
        libc = ctypes.CDLL(None, use_errno=True)
        parent = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        try:
            os.setsid()
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:  # It died before we asked to be told.
                os._exit(137)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            os.close(self.orders)
            os.close(self.words)
            os.execvp(command[0], command)
        except OSError as error:
            os.write(2, f"doyen: cannot run {command[0]}: {error.strerror}\n".encode())
            os._exit(127 if isinstance(error, FileNotFoundError) else 126)

    def reaped(self) -> int | None:
        if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return None
        self.kill(signal.SIGKILL)  # Whatever it left behind in its group, whose id is its own until it is reaped.
        self.tell_shadow(0)
        _, status = os.waitpid(self.pid, 0)
        return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)

    def hear(self) -> None:
        data = os.read(self.orders, 65536)
        if not data:
            self.runner_gone = True
            self.stop(b"the runner is gone")
            return
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        for line in lines:
            word, _, number = line.partition(b" ")
            if word == b"until":
                self.until = int(number)
            elif word == b"stop":
                self.stop(b"told")

    def next_deadline(self) -> int:
        if self.stop_at < FOREVER:
            return min(self.stop_at, self.until - self.margin)
        return self.until - self.notice

    def watch_deadlines(self) -> None:
        time_now = now()
        if time_now >= self.stop_at or time_now >= self.until - self.margin:
            self.kill(signal.SIGKILL)
            self.stop_at = min(self.stop_at, time_now + 50_000_000)  # Again, until it is reaped.
        elif time_now >= self.until - self.notice and self.stop_at == FOREVER:
            self.stop(b"lease not renewed")

    def stop(self, why: bytes) -> None:
        if self.stop_at == FOREVER:
            self.stop_at = min(now() + self.grace, self.until - self.margin)
            self.say(b"term " + why + b"\n")
            self.kill(signal.SIGTERM)
            self.kill(signal.SIGCONT)  # One that is stopped would not hear it.

    def kill(self, number: int) -> None:
        if not self.pid:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)  # setsid: the group has the leader's id.

    def say(self, line: bytes) -> None:
        try:
            os.write(self.words, line)
        except OSError:
            self.runner_gone = True


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[1:7]]
    sys.exit(Guard(*numbers).run(sys.argv[7:]))
