"""The watchdog of one command: a process of its own, so that the command ends whatever becomes of the runner.

    runner ──"until NS" (the lease), "stop"──▶ guard ──fork, own session──▶ command and its descendants
           ◀──"pid N GUARD", "term WHY", "exit N", or "late": it was not begun── guard
              "stopped NS" and "ended NS" say when: the runner may be paused, and read them later
           ◀──"gone": nothing that the command began is left─────────────────── shadow

The guard is the command's parent (decision 70).  It ends the command and all that descends from it, by SIGTERM and
then SIGKILL,
    when the runner says so,
    when the runner is gone (its end of the pipe closes, also by SIGKILL),
    when the lease is about to end and was not renewed: SIGTERM `notice` before, SIGKILL `margin` before its end.
If the guard itself is killed, the kernel kills the command (PR_SET_PDEATHSIG), and the guard's parent, its shadow,
the rest: also where the runner is paused, or gone as well (decision 93).  The shadow kills a guard that is stopped
while the last lease ends that it has heard of.

Runner, shadow and guard adopt orphans (PR_SET_CHILD_SUBREAPER), so what leaves the command's process group or session
is theirs all the same, and nothing has ended before nothing is left (decision 95).

The shadow also keeps the leader's will (`doyen.net.will`, decision 96): once nothing is left of the command it waits
for the end of the runner, which could begin another, and sends it.  A runner that lives on ends its shadow instead.

Nothing but the standard library, and little of it: it must start fast and weigh nothing.
"""

import ctypes
import mmap
import os
import select
import signal
import sys
import time
from contextlib import suppress
from types import ModuleType

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
FOREVER = 1 << 62
AGAIN = 20_000_000  # Nanoseconds after which what was killed and still lives is killed again.
STOPPED_AFTER = 25_000_000  # A guard that does nothing in this time while its lease ends is stopped: see AGAIN.
LOOK_EVERY = 500_000_000  # The shadow looks at its guard as often as this.
ASLEEP_MAX = 100_000_000  # No longer: `select` does not count the time that the machine itself was asleep.


def now() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def adopt_orphans() -> None:
    """Have descendants whose parent ends come to this process."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def descendants(pid: int) -> list[int]:
    """Return the descendants that the kernel lists now; one that begins or ends meanwhile may be missing."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    found = []
    for task in tasks:
        with suppress(OSError), open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
            for child in map(int, file.read().split()):
                found += [child, *descendants(child)]
    return found


def code_of(status: int) -> int:
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def end_descendants() -> None:
    """Kill all descendants of this process; return once there is none."""
    while True:
        for pid in descendants(os.getpid()):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)


class Shared:
    """Holds the lease's end as the guard knows it, and when the guard last looked at it, for the shadow to see."""

    def __init__(self) -> None:
        self._held = mmap.mmap(-1, 16)  # Shared by what is forked.

    def put(self, until: int) -> None:
        self._held[:16] = until.to_bytes(8, "little") + now().to_bytes(8, "little")

    def get(self) -> tuple[int, int]:
        return int.from_bytes(self._held[:8], "little"), int.from_bytes(self._held[8:16], "little")


class Guard:
    """Ends its child, the command, in time.  Times are CLOCK_BOOTTIME in nanoseconds, the runner's own clock."""

    def __init__(
        self, shared: Shared, orders: int, words: int, until: int, grace: int, notice: int, margin: int
    ) -> None:
        self.shared, self.orders, self.words = shared, orders, words
        self.until, self.grace, self.notice, self.margin = until, grace, notice, margin
        self.pid = 0
        self.code: int | None = None  # The command's own, once it has ended.
        self.stop_at = FOREVER  # When SIGKILL follows, once SIGTERM was sent.
        self.kill_at = 0  # Not before: a killed process needs a moment to end.
        self.buffer = b""
        self.runner_gone = False

    def run(self, command: list[str]) -> int:
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        os.set_blocking(wake_read, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        if select.select([self.orders], [], [], 0)[0]:
            self.hear()  # While we started, the lease may have been renewed, or the runner gone.
        if self.runner_gone or self.stop_at < FOREVER or now() >= self.until - self.notice:
            self.say(b"late\n")
            return 75
        self.pid = self.start(command)
        self.say(b"pid %d %d\n" % (self.pid, os.getpid()))
        while not self.all_ended():
            self.watch_deadlines()
            wait_s = max(0, min(self.next_deadline() - now(), ASLEEP_MAX)) / 1e9
            wanted = [wake_read] if self.runner_gone else [wake_read, self.orders]
            ready, _, _ = select.select(wanted, [], [], wait_s)
            if wake_read in ready:
                os.read(wake_read, 4096)
            if self.orders in ready:
                self.hear()
        assert self.code is not None
        self.say(b"ended %d\nexit %d\n" % (now(), self.code))
        return self.code

    def start(self, command: list[str]) -> int:
        parent = os.getpid()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED)  # One that comes before the command begins is kept.
        pid = os.fork()
        if pid:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            return pid
        try:
            os.setsid()
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # It died before we asked to be told.
                os._exit(137)
            signal.set_wakeup_fd(-1)
            for number in (*IGNORED, signal.SIGCHLD, signal.SIGXFSZ):  # The last one Python itself ignores.
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(self.orders)
            os.close(self.words)
            os.execvp(command[0], command)
        except OSError as error:
            os.write(2, f"doyen: cannot run {command[0]}: {error.strerror}\n".encode())
            os._exit(127 if isinstance(error, FileNotFoundError) else 126)

    def all_ended(self) -> bool:
        """Return whether the command and its descendants have ended; these are killed unless SIGTERM was just sent."""
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self.pid:
                    self.code = code_of(ended[1])
        except ChildProcessError:
            return True
        if self.code is not None and self.stop_at == FOREVER:
            self.stop_at = 0
        return False

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
            return max(self.kill_at, min(self.stop_at, self.until - self.margin))
        return self.until - self.notice

    def watch_deadlines(self) -> None:
        self.shared.put(self.until)
        time_now = now()
        if time_now >= self.stop_at or time_now >= self.until - self.margin:
            without_notice = self.stop_at == FOREVER  # All of this was stopped until now, as with its machine.
            self.stop_at = min(self.stop_at, time_now)
            if time_now >= self.kill_at:
                self.kill_at = time_now + AGAIN
                self.kill(signal.SIGKILL)
            if without_notice:
                self.say(b"term lease not renewed\n")
        elif time_now >= self.until - self.notice and self.stop_at == FOREVER:
            self.stop(b"lease not renewed")

    def stop(self, why: bytes) -> None:
        if self.stop_at == FOREVER:
            self.stop_at = now() + self.grace  # Or before the lease ends, whichever is sooner: it may yet be renewed.
            self.say(b"stopped %d\nterm %s\n" % (now(), why))
            self.kill(signal.SIGTERM)
            self.kill(signal.SIGCONT)  # One that is stopped would not hear it.

    def kill(self, number: int) -> None:
        """Signal the command's group at once, while its id is surely its own, then those that left the group."""
        if not self.pid:
            return
        has_group = False
        if self.code is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)  # setsid: the group has the command's id.
                has_group = True
        for pid in descendants(os.getpid()):
            with suppress(ProcessLookupError, PermissionError):
                if not has_group or os.getpgid(pid) != self.pid:  # It may have made its group just now.
                    os.kill(pid, number)

    def say(self, line: bytes) -> None:
        try:
            os.write(self.words, line)
        except OSError:
            self.runner_gone = True


def outlived(guard: int, shared: Shared, margin: int) -> int:
    """Return how the guard ended; kill it if it is stopped while its lease ends."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    seen = 0  # When the guard last looked at a lease that was about to end.
    while True:
        ended, status = os.waitpid(guard, os.WNOHANG)
        if ended:
            return status
        until, looked = shared.get()
        wait = min(until - margin * 3 // 4 - now(), LOOK_EVERY)
        if wait <= 0:
            if looked == seen:
                os.kill(guard, signal.SIGKILL)
            # After a sleep of the machine all of this is late, and the guard has yet to wake up.
            seen, wait = looked, STOPPED_AFTER if now() < until else 10 * STOPPED_AFTER
        signal.sigtimedwait({signal.SIGCHLD}, wait / 1e9)


NUMBERS = 8  # Of arguments before the command: six for the guard, and the will's file and the runner's pidfd, or -1.
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)  # Orders come by the pipe.


def main(numbers: list[int], command: list[str]) -> int:
    """Run the shadow, with the guard as its child: the processes that the guard leaves behind come to the shadow."""
    *numbers, will_file, runner = numbers
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    adopt_orphans()
    shared, until, margin = Shared(), numbers[2], numbers[5]
    shared.put(until)
    guard = os.fork()
    if not guard:
        for end in (will_file, runner):
            with suppress(OSError):
                os.close(end)
        os.setsid()
        adopt_orphans()
        os._exit(Guard(shared, *numbers).run(command))  # At once: the shadow waits for it.
    orders, words = numbers[:2]
    os.close(orders)
    will = load_will() if will_file >= 0 else None  # Now: by then the package may be another version's.
    code = code_of(outlived(guard, shared, margin) if until < FOREVER else os.waitpid(guard, 0)[1])
    end_descendants()
    with suppress(OSError):
        os.write(words, b"gone\n")
    os.close(words)
    if will is not None:
        will.send_once_gone(will_file, runner)
    return code


def load_will() -> ModuleType:
    """Import `doyen.net.will` by its place: nothing else of doyen is loaded here."""
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "net"))
    return __import__("will")


if __name__ == "__main__":
    sys.exit(main([int(text) for text in sys.argv[1 : 1 + NUMBERS]], sys.argv[1 + NUMBERS :]))
