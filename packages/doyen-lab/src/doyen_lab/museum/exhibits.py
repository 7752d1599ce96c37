"""The exhibits: which rule, which scenario, what went wrong in public, and where the model is simpler."""

from collections.abc import Callable

from doyen_lab.museum import locks, peers
from doyen_lab.museum.show import Exhibit, Stage


def cut_off_for(lasting: str) -> Callable[[Stage], None]:
    def scenario(stage: Stage) -> None:
        first = stage.lead()
        stage.run_for("2s")
        stage.cut_off(first)
        stage.run_for(lasting)
        stage.heal()
        stage.run_for("30s")

    return scenario


def a_follower_is_cut_off(stage: Stage) -> None:
    first = stage.lead()
    stage.run_for("2s")
    stage.cut_off(next(name for name in ("n0", "n1") if name != first))
    stage.run_for("10s")
    stage.heal()
    stage.run_for("20s")


def crashes_and_comes_back(stage: Stage) -> None:
    first = stage.lead()
    stage.run_for("2s")
    stage.crash(first)
    stage.run_for("2s")
    stage.restart(first)
    stage.lead(within="1h")
    stage.run_for("10s")


def is_stopped_for_40_seconds(stage: Stage) -> None:
    first = stage.lead()
    stage.run_for("2s")
    stage.pause(first)
    stage.run_for("40s")
    stage.resume(first)
    stage.run_for("60s")


def nothing_happens(stage: Stage) -> None:
    stage.lead()
    stage.run_for("90s")


def one_clock_is_fast(stage: Stage) -> None:
    first = stage.lead()
    stage.step_clock("n1" if first != "n1" else "n0", "20s")
    stage.run_for("60s")


def split_in_two(stage: Stage) -> None:
    stage.lead()
    stage.run_for("5s")
    stage.cut_off("n0")
    stage.run_for("30s")
    stage.heal()
    stage.run_for("60s")


def the_leader_flaps(stage: Stage) -> None:
    first = stage.lead()
    stage.run_for("5s")
    for _ in range(6):
        stage.crash(first)
        stage.run_for("5s")
        stage.restart(first)
        stage.run_for("5s")


def one_link_is_cut(stage: Stage) -> None:
    first = stage.lead()
    stage.run_for("2s")
    stage.cut_between(first, next(name for name in ("n0", "n1") if name != first))
    stage.run_for("30s")


EXHIBITS = {
    exhibit.name: exhibit
    for exhibit in (
        Exhibit(
            name="renews-anybodys-lock",
            rule=locks.RenewsWithoutLooking,
            harm="two at once",
            at_least=40.0,
            happened="a scheduler that lost its lock extended its successor's, and went on forever",
            where=("sibson/redbeat#127",),
            simpler="one lock of 10 s that is extended every 5 s, as in the report; no schedule is kept",
            scenario=cut_off_for("30s"),
        ),
        Exhibit(
            name="goes-on-without-its-store",
            rule=locks.GoesOnWithoutTheStore,
            harm="two at once",
            at_least=50.0,
            happened="a scheduler that could not reach Redis went on sending, and so did the next holder",
            where=("sibson/redbeat#129",),
            simpler="a cut stands for the failing name server; lock of 60 s, loop of 10 s, as in the report",
            scenario=cut_off_for("120s"),
        ),
        Exhibit(
            name="starts-after-an-error",
            rule=locks.StartsAfterAnError,
            harm="two at once",
            at_least=20.0,
            happened="an error while waiting for the lock was swallowed, and the standby began to send",
            where=("sibson/redbeat#208", "sibson/redbeat#240"),
            simpler="the error is a timeout of 3 s, not a closed connection",
            scenario=a_follower_is_cut_off,
        ),
        Exhibit(
            name="stale-lock",
            rule=locks.OutlivesItsOwner,
            harm="nobody",
            at_least=600.0,
            happened="after a crash everybody waited for the dead holder's lock, for more than ten minutes",
            where=("sibson/redbeat#85",),
            simpler="the default of that time, 5 × 300 s; only the expiry frees the lock",
            scenario=crashes_and_comes_back,
        ),
        Exhibit(
            name="session-of-a-minute",
            rule=locks.SessionOfAMinute,
            harm="nobody",
            at_least=30.0,
            happened="a session outlives its process: nobody leads until its lease of 60 s is over",
            where=("etcdctl elect (default lease 60 s)",),
            simpler="one store instead of three; the lease is renewed every 12 s",
            scenario=crashes_and_comes_back,
        ),
        Exhibit(
            name="stopped-holder",
            rule=locks.WorksOnAfterItsLockExpired,
            harm="two at once",
            at_least=10.0,
            happened="the holder was stopped for longer than its lock lives, woke up, and worked on beside the next",
            where=(
                "Kleppmann, How to do distributed locking, 2016",
                "redisson/redisson#4863",
                "redisson/redisson#2665",
            ),
            simpler="one store instead of five; a job of a minute that looks at its lock only when it begins",
            scenario=is_stopped_for_40_seconds,
        ),
        Exhibit(
            name="wall-clocks",
            rule=locks.ComparesWallClocks,
            harm="two at once",
            at_least=0.5,
            happened="a lease is judged by the time stamp of another host's clock: a fast clock takes it early",
            where=("kubernetes/client-go#448", "kubernetes/kubernetes#120824"),
            simpler="the rule that the maintainers refused there; one clock is 20 s ahead, lease 15 s, retry 2 s",
            scenario=one_clock_is_fast,
        ),
        Exhibit(
            name="pool-ends-the-session",
            rule=locks.PooledSession,
            harm="two at once",
            at_least=1.0,
            happened="the pool recycled the connection that held the advisory lock, hour after hour",
            where=("neochaotic/leoflow#1199",),
            simpler="a connection lives 63 s, not an hour; standbys try every second, and the holder looks every 5 s",
            scenario=nothing_happens,
        ),
        Exhibit(
            name="pool-keeps-the-lock",
            rule=locks.StrandedSession,
            harm="nobody",
            at_least=60.0,
            happened="the lock stayed with a pooled connection after its client was gone: everybody waited",
            where=("goauthentik/authentik#23876", "electric-sql/electric#2682"),
            simpler="the pool ends a connection after 120 s instead of an hour",
            scenario=crashes_and_comes_back,
        ),
        Exhibit(
            name="one-name-for-all",
            rule=locks.OneIdentityForAll,
            harm="two at once",
            at_least=60.0,
            happened="all nodes asked for the lock under one name, and all got it",
            where=("oban-bg/oban#724",),
            simpler="a lock in a store stands for Erlang's global lock",
            scenario=nothing_happens,
        ),
        Exhibit(
            name="renews-by-name",
            rule=locks.RenewsByTheServicesName,
            harm="two at once",
            at_least=30.0,
            happened="a node that lost its lease renewed the row of the next leader: two for 19 days",
            where=("oban-bg/oban#1488",),
            simpler="the lease is lost by a stop of 40 s; lease 30 s, elections every 15 s",
            scenario=is_stopped_for_40_seconds,
        ),
        Exhibit(
            name="raft-without-a-lease",
            rule=peers.RaftWithoutALease,
            harm="two at once",
            at_least=25.0,
            happened="a Raft leader that is cut off stays leader in its own eyes while the others elect another",
            where=("zhebrak/raftos#4", "tarantool/tarantool#6981", "camunda/camunda#2325"),
            simpler="elections only, no log; a vote is not kept on a disk, for nobody crashes here",
            scenario=cut_off_for("30s"),
        ),
        Exhibit(
            name="one-broken-link",
            rule=peers.RaftWithoutALease,
            harm="changes",
            at_least=10.0,
            happened="two of three servers could not hear each other, and elections went on without end",
            where=("Cloudflare, A Byzantine failure in the real world (2020)", "Omni-Paxos (EuroSys 2023)"),
            simpler="elections only, no log and no pre-vote; one link is cut both ways",
            scenario=one_link_is_cut,
        ),
        Exhibit(
            name="forgets-the-dead",
            rule=peers.ForgetsTheDead,
            harm="two at once",
            at_least=60.0,
            happened="after a partition healed both sides went on alone: dead members are never called again",
            where=("hashicorp/memberlist#222", "hashicorp/serf#605", "metallb/metallb#589"),
            simpler="every member pings every other once a second; no gossip, no suspicion",
            scenario=split_in_two,
        ),
        Exhibit(
            name="the-best-flaps",
            rule=peers.ForgetsTheDead,
            harm="changes",
            at_least=10.0,
            happened="a node that crashed every minute took leadership back each time it appeared",
            where=("metallb/metallb#800",),
            simpler="the last by name leads instead of the first by hash; down and up for 5 s each",
            scenario=the_leader_flaps,
        ),
    )
}
