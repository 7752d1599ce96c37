"""Elections by a shared directory: what one member does in one step, and what is in the files."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from doyen.core.clock import Instant, ms, seconds
from doyen.core.commands import LeaveGroup, Resign
from doyen.core.effects import Emit, SetTimer
from doyen.core.ids import Incarnation, NodeId, Term
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.link import LinkBroken
from doyen.core.outside import Answered, Outside
from doyen.core.rank import ScoreGiven, ScoreWanted
from doyen.election.claims import EpochClaimed
from doyen.election.directory.config import DirectoryConfig
from doyen.election.directory.files import Files, Folder, answer, judged
from doyen.election.directory.machine import Directory
from doyen.election.directory.messages import (
    Candidate,
    DirectoryAnswers,
    DirectoryFails,
    Found,
    LeaseEnds,
    LookIsDue,
    OddFiles,
    Status,
    ToDirectory,
    Top,
)
from doyen.election.directory.steps import Claim, Link, Remove, numbered, packed, unpacked
from doyen.errors import ConfigError, LocalProtocolError
from doyen.testing import RecordingOut

A, B, C = (NodeId(name) for name in "abc")
CONFIG = DirectoryConfig(lease=seconds(1), renew_interval=ms(200), stand_time=ms(300))
GUARD = CONFIG.guard(0)


class Member:
    """One machine, and a directory that answers as it is told."""

    def __init__(self, **more: Any) -> None:
        self.out = RecordingOut()
        self.machine = Directory(A, Incarnation(7), CONFIG, self.out, **more)
        self.machine.start(0)

    def asked(self) -> ToDirectory:
        """Return the last request, of those that were not taken yet."""
        return [e.fact for e in self.out.effects if isinstance(e, Emit) and isinstance(e.fact, ToDirectory)][-1]

    def found(self, top: Top | None, at: Instant, *candidates: Candidate) -> list[Any]:
        """Answer the last request; return the facts that the machine emits."""
        number = self.asked().number
        before = len(self.out.effects)
        self.machine.on_answered(Answered(number, found=msgspec.msgpack.encode(Found(top, candidates))), at)
        return [effect.fact for effect in self.out.effects[before:] if isinstance(effect, Emit)]

    def look(self, at: Instant) -> None:
        self.machine.on_timer(LookIsDue(self.asked().number), at)

    def claiming(self, top: Top | None) -> Instant:
        """Go on until this member claims; return when."""
        self.found(top, 0)
        at = GUARD + 1
        self.look(at)
        epoch = 1 if top is None else top.epoch + 1
        assert ScoreWanted(epoch) in self.found(top, at)
        self.machine.on_score_given(ScoreGiven(epoch, 5), at)
        assert (self.asked().do, self.asked().epoch, self.asked().standing) == ("stand", epoch, 5.0)
        self.found(top, at)
        at += CONFIG.stand_time
        self.look(at)
        self.found(top, at)
        assert (self.asked().do, self.asked().epoch) == ("claim", epoch)
        return at

    def leading(self) -> Instant:
        """Go on until this member leads epoch 1; return when its renewal was asked for."""
        at = self.claiming(None)
        mine = self.mine(1)
        self.found(mine, at)
        at += GUARD
        self.look(at)
        assert LeaderElected(Term(1, A)) in self.found(mine, at)
        return at

    def mine(self, epoch: int) -> Top:
        return Top(epoch, f"{len(self.out.effects)}", A, Incarnation(7))


def of(node: NodeId, epoch: int = 4, mark: str = "x", **more: Any) -> Top:
    return Top(epoch, mark, node, Incarnation(1), lease=CONFIG.lease, **more)


def test_it_claims_only_after_a_guard_without_renewal_and_acts_only_after_another() -> None:
    member = Member()
    at = member.claiming(of(B))
    assert at > GUARD
    answered_at = at + ms(50)
    assert not member.machine.leads(answered_at)
    member.found(member.mine(5), answered_at)
    assert member.machine.status is Status.WAITING
    member.look(answered_at + GUARD - 1)
    member.found(member.mine(5), answered_at + GUARD - 1)
    assert member.machine.status is Status.WAITING
    member.look(answered_at + GUARD)
    assert LeaderElected(Term(5, A)) in member.found(member.mine(5), answered_at + GUARD)


def test_any_change_is_a_renewal_and_clocks_are_not_compared() -> None:
    member = Member()
    for i in range(20):
        member.found(of(B, mark=str(i), phase="acting"), i * ms(200))
        member.look((i + 1) * ms(200))
    assert member.machine.status is Status.WATCHING and member.machine.named == B


def test_a_leader_of_yesterday_is_not_named() -> None:
    member = Member()
    assert member.found(of(B, phase="acting"), 0) == [] and member.machine.named is None


def test_a_longer_lease_in_the_directory_is_waited_for_both_times() -> None:
    member, top = Member(), replace(of(B), lease=seconds(3))
    member.found(top, 0)
    member.look(GUARD + 1)
    member.found(top, GUARD + 1)
    assert member.machine.status is Status.WATCHING
    late = CONFIG.guard(seconds(3)) + 1
    member.look(late)
    assert ScoreWanted(5) in member.found(top, late)


def test_who_claims_after_a_longer_lease_says_that_lease_until_it_acts() -> None:
    """Others wait for what the directory says, and until then the earlier leader might still act."""
    for theirs in (ms(500), seconds(3)):
        member, top = Member(), replace(of(B), lease=theirs)
        late = CONFIG.guard(theirs) + 1
        member.found(top, 0)
        member.look(late)
        member.found(top, late)
        member.machine.on_score_given(ScoreGiven(5, 5), late)
        member.found(top, late)
        member.look(late + CONFIG.stand_time)
        member.found(top, late + CONFIG.stand_time)
        assert (member.asked().do, member.asked().lease) == ("claim", max(theirs, CONFIG.lease))
        at = late + CONFIG.stand_time
        member.found(member.mine(5), at)
        acts_at = at + CONFIG.guard(max(theirs, CONFIG.lease))
        member.look(acts_at - 1)
        assert LeaderElected(Term(5, A)) not in member.found(member.mine(5), acts_at - 1)


def test_the_lease_counts_from_when_the_look_was_asked_for() -> None:
    member = Member()
    at = member.leading()
    member.found(member.mine(1), at + ms(900))  # The answer took its time.
    assert member.machine.lease_until() == at + seconds(1)
    assert member.machine.leads(at + seconds(1) - 1) and not member.machine.leads(at + seconds(1))


def test_a_directory_that_hangs_prolongs_nothing() -> None:
    member = Member()
    at = member.leading()
    timers = [effect for effect in member.out.take() if isinstance(effect, SetTimer)]
    (ends,) = (effect for effect in timers if isinstance(effect.timer, LeaseEnds))
    assert ends.at == at + seconds(1)
    member.machine.on_timer(ends.timer, ends.at)
    assert Emit(LeaderLost(Term(1, A), "lease over")) in member.out.take()


@pytest.mark.parametrize("acted", [False, True])
def test_who_leaves_says_the_lease_that_an_earlier_leader_may_have_until_it_has_acted(acted: bool) -> None:
    """Whoever claims next waits for that, for nobody has shown yet that the earlier one has stopped."""
    member, top = Member(), replace(of(B), lease=seconds(3))
    late = CONFIG.guard(seconds(3)) + 1
    member.found(top, 0)
    member.look(late)
    member.found(top, late)
    member.machine.on_score_given(ScoreGiven(5, 5), late)
    member.found(top, late)
    member.look(late + CONFIG.stand_time)
    member.found(top, late + CONFIG.stand_time)
    at = late + CONFIG.stand_time
    member.found(member.mine(5), at)
    if acted:
        at += CONFIG.guard(seconds(3))
        member.look(at)
        assert LeaderElected(Term(5, A)) in member.found(member.mine(5), at)
    member.machine.HEARS[LeaveGroup](member.machine, LeaveGroup(), at + 1)
    assert (member.asked().phase, member.asked().free) == ("released", acted)
    assert member.asked().lease == (CONFIG.lease if acted else seconds(3))


def test_a_higher_epoch_ends_a_reign_at_once_and_so_does_a_claim_that_is_gone() -> None:
    for top in (of(B, 2), None, of(B, 1)):
        member = Member()
        at = member.leading()
        assert LeaderLost(Term(1, A), "outranked") in member.found(top, at + ms(10))
        assert not member.machine.leads(at + ms(10))


def test_a_claim_that_holds_says_for_which_epoch() -> None:
    member = Member()
    at = member.claiming(of(B))
    assert EpochClaimed(5, ()) in member.found(member.mine(5), at)


def test_a_claim_that_came_late_is_none() -> None:
    member = Member()
    at = member.claiming(of(B))
    member.found(of(C, 9, "y"), at)
    assert member.machine.status is Status.WATCHING and not member.machine.leads(at)


def test_after_a_leader_that_acted_and_released_nobody_waits_but_for_candidates() -> None:
    member, top = Member(), of(B, phase="released", free=True)
    assert ScoreWanted(5) in member.found(top, 0)
    member.machine.on_score_given(ScoreGiven(5, 1), 0)
    member.found(top, 0)
    member.look(CONFIG.stand_time)
    member.found(top, CONFIG.stand_time)
    assert LeaderElected(Term(5, A)) in member.found(member.mine(5), CONFIG.stand_time)


def test_after_a_claimant_that_never_acted_the_wait_stays() -> None:
    member, top = Member(), of(B, phase="released", free=False)
    member.found(top, 0)
    member.machine.on_score_given(ScoreGiven(5, 1), 0)
    member.found(top, 0)
    member.look(CONFIG.stand_time)
    member.found(top, CONFIG.stand_time)
    member.found(member.mine(5), CONFIG.stand_time)
    assert member.machine.status is Status.WAITING


def test_a_better_candidate_goes_first_and_an_heir_before_all() -> None:
    top = of(B, phase="released", free=True)
    member = Member()
    member.found(top, 0)
    member.machine.on_score_given(ScoreGiven(5, 1), 0)
    better = Candidate(5, C, 2.0)
    member.found(top, 0, better)
    member.look(CONFIG.stand_time)
    member.found(top, CONFIG.stand_time, better)
    assert member.asked().do == "look"  # It gives way once,
    member.look(2 * CONFIG.stand_time)
    member.found(top, 2 * CONFIG.stand_time, better)
    assert member.asked().do == "claim"  # and not forever.
    heir = Member()
    heir.found(replace(top, heir=A), 0)
    assert heir.asked().do == "claim"


def test_who_resigns_says_so_after_it_stopped_and_lets_others_go_first() -> None:
    member = Member()
    at = member.leading()
    member.out.take()
    member.machine.resign(Resign(C), at + 1)
    lost, released = (effect.fact for effect in member.out.take() if isinstance(effect, Emit))
    assert lost == LeaderLost(Term(1, A), "resigned")
    assert (released.phase, released.free, released.heir) == ("released", True, C)
    with pytest.raises(LocalProtocolError, match="itself"):
        member.machine.resign(Resign(A), at + 2)


def test_who_leaves_while_it_waits_does_not_say_that_nobody_acts() -> None:
    member = Member()
    at = member.claiming(of(B))
    member.found(member.mine(5), at)
    member.machine.HEARS[LeaveGroup](member.machine, LeaveGroup(), at + 1)
    assert (member.asked().phase, member.asked().free) == ("released", False)
    member.found(member.mine(5), at + GUARD + 1)
    assert member.machine.status is Status.LEFT


def test_who_may_not_lead_never_stands() -> None:
    member = Member(stands=False)
    for i in range(30):
        member.found(None, i * ms(200))
        member.look((i + 1) * ms(200))
        assert member.asked().do == "look"


def test_failures_are_said_once_and_end_nothing_but_sight() -> None:
    member = Member()
    for i in range(20):
        member.found(of(B, mark=str(min(i, 2)), phase="acting"), i * ms(100)) if i < 3 else None
        if i >= 3:
            member.machine.on_answered(Answered(member.asked().number, failed="it is gone"), i * ms(100))
        member.look((i + 1) * ms(100))
    facts = [effect.fact for effect in member.out.effects if isinstance(effect, Emit)]
    assert facts.count(DirectoryFails("it is gone")) == 1
    assert LeaderLost(Term(4, B), "silent") in facts
    assert DirectoryAnswers() in member.found(of(B), seconds(3))


def test_a_leader_whose_process_is_gone_is_not_waited_for_but_its_lease_is() -> None:
    member = Member()
    for i in range(3):
        member.found(of(B, mark=str(i), phase="acting"), i * ms(200))
        member.look((i + 1) * ms(200))
    member.found(of(B, mark="2", phase="acting"), ms(610))
    assert member.machine.named == B
    member.machine.on_link_broken(LinkBroken(B, Incarnation(1), gone=True), ms(650))
    assert ScoreWanted(5) in member.found(of(B, mark="2", phase="acting"), ms(660))
    member.machine.on_score_given(ScoreGiven(5, 1), ms(660))
    member.found(of(B, mark="2", phase="acting"), ms(660))
    member.look(ms(960))
    member.found(of(B, mark="2", phase="acting"), ms(960))
    member.found(member.mine(5), ms(970))
    assert member.machine.status is Status.WAITING and not member.machine.leads(ms(970))


def test_the_next_leader_is_named_after_the_last_is_lost() -> None:
    member, heard = Member(), []
    for i, (node, epoch, mark) in enumerate(((B, 4, "0"), (B, 4, "1"), (C, 5, "2"), (C, 5, "3"))):
        heard += member.found(of(node, epoch, mark, phase="acting"), i * ms(200))
        member.look((i + 1) * ms(200))
    told = [fact for fact in heard if isinstance(fact, LeaderElected | LeaderLost)]
    assert told == [
        LeaderElected(Term(4, B)),
        LeaderLost(Term(4, B), "outranked"),
        LeaderElected(Term(5, C)),
    ]


def look_at(member: Member) -> Instant:
    """Return when the next look is due."""
    return [e.at for e in member.out.effects if isinstance(e, SetTimer) and isinstance(e.timer, LookIsDue)][-1]


@pytest.mark.parametrize(("took", "due"), [(ms(50), ms(200)), (ms(200), ms(200)), (ms(900), ms(900))])
def test_the_next_look_is_an_interval_after_the_last_was_asked_for_and_never_in_the_past(
    took: int, due: Instant
) -> None:
    follower, witness = Member(), Member(stands=False)
    follower.found(of(B), took)
    assert look_at(follower) == due  # Somebody holds the epoch.
    witness.found(of(B, phase="released", free=True), took)
    assert look_at(witness) == due  # Nobody does, and this one may not claim.
    leader = Member()
    at = leader.leading()
    leader.found(leader.mine(1), at + took)
    assert look_at(leader) == at + due


def test_a_claimant_looks_again_when_it_may_act_or_an_interval_later_if_that_is_earlier() -> None:
    member = Member()
    at = member.claiming(None)
    member.found(member.mine(1), at)
    assert look_at(member) == at + ms(200)
    for i in range(1, 6):
        member.look(at + i * ms(200))
        member.found(member.mine(1), at + i * ms(200))
    assert look_at(member) == at + GUARD < at + 6 * ms(200)


def test_a_candidate_looks_once_more_before_it_claims_and_never_in_the_past() -> None:
    member, top = Member(), of(B, phase="released", free=True)
    assert ScoreWanted(5) in member.found(top, 0)
    member.machine.on_score_given(ScoreGiven(5, 1), 0)
    member.found(top, ms(50))
    assert look_at(member) == ms(250)  # An interval later; it claims at 300.
    member.look(ms(250))
    member.found(top, ms(260))
    assert look_at(member) == ms(300)
    late = Member()
    late.found(top, 0)
    late.machine.on_score_given(ScoreGiven(5, 1), 0)
    late.found(top, ms(700))  # The directory took its time.
    assert look_at(late) == ms(700)


@pytest.mark.parametrize(("broken", "gone"), [(B, False), (C, True), (A, True)])
def test_a_link_that_says_nothing_of_the_leaders_process_changes_nothing(broken: NodeId, gone: bool) -> None:
    member = Member()
    for i in range(3):
        member.found(of(B, mark=str(i), phase="acting"), i * ms(200))
        member.look((i + 1) * ms(200))
    member.found(of(B, mark="2", phase="acting"), ms(610))
    asked = member.asked()
    member.machine.on_link_broken(LinkBroken(broken, Incarnation(1), gone=gone), ms(650))
    assert member.machine.named == B and member.asked() == asked
    member.look(ms(800))
    member.found(of(B, mark="2", phase="acting"), ms(810))
    assert member.machine.named == B and member.machine.status is Status.WATCHING


@pytest.mark.parametrize("pending", [False, True])
def test_who_finds_its_lease_over_asks_the_directory_at_once_unless_it_owes_an_answer(pending: bool) -> None:
    member = Member()
    at = member.leading()
    if not pending:
        member.found(member.mine(1), at + 1)
    number = member.asked().number
    member.machine.on_score_given(ScoreGiven(9, 1), at + seconds(1))
    assert member.machine.named is None and (member.asked().number == number) is pending


# Files.


def outside(path: Path, **more: Any) -> Outside:
    said = {"node": A, "incarnation": Incarnation(7), "group": "g", "name": "", "shared": str(path), "config": CONFIG}
    return Outside(**said | more)


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    assert Files().prepare(outside(tmp_path)) and not Files().prepare(outside(tmp_path))
    return tmp_path


def ask(path: Path, do: Any = "look", **fields: Any) -> Found:
    place = outside(path)
    return answer(Folder(path, A), ToDirectory(number=1, do=do, **fields), place)


def test_a_claim_is_made_once_whole_and_never_overwritten(shared: Path) -> None:
    assert ask(shared) == Found()
    mine = ask(shared, "claim", epoch=1, lease=5).top
    assert mine is not None and (mine.epoch, mine.node, mine.incarnation, mine.phase) == (1, A, 7, "claimed")
    theirs = outside(shared, node=B)
    assert answer(Folder(shared, B), ToDirectory(number=1, do="claim", epoch=1), theirs).top == mine
    again = ask(shared, "renew", epoch=1, serial=1, phase="acting", lease=5, free=True).top
    assert again is not None and again.phase == "acting" and again.mark != mine.mark
    assert sorted(os.listdir(shared)) == ["doyen.group", numbered("epoch", 1), numbered("renewal", 1)]


def test_a_holder_removes_what_is_below_and_never_the_highest(shared: Path) -> None:
    for epoch in (1, 2, 3):
        ask(shared, "claim", epoch=epoch)
        ask(shared, "stand", epoch=epoch + 1, standing=1.0)
    ask(shared, "renew", epoch=2, serial=1)  # Not the highest: it removes nothing.
    assert numbered("epoch", 1) in os.listdir(shared)
    found = ask(shared, "renew", epoch=3, serial=1)
    assert found.candidates == (Candidate(4, A, 1.0),)
    left = {"doyen.group", numbered("epoch", 3), numbered("renewal", 3), numbered("stands", 4, A)}
    assert set(os.listdir(shared)) == left


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: (path / numbered("epoch", 6)).write_bytes(b""),
        lambda path: (path / numbered("epoch", 6)).write_bytes(packed(Claim(5, B, Incarnation(1), 5))),
        lambda path: (path / numbered("epoch", 6)).write_bytes(b"\xff" * 9000),
        lambda path: (path / numbered("epoch", 6)).mkdir(),
        lambda path: (path / numbered("epoch", 6)).symlink_to(path / "nowhere"),
    ],
)
def test_an_epoch_that_cannot_be_read_counts_and_belongs_to_nobody(shared: Path, spoil: Callable[[Path], Any]) -> None:
    ask(shared, "claim", epoch=5)
    spoil(shared)
    top = ask(shared).top
    assert top is not None and (top.epoch, top.node, top.phase) == (6, None, "claimed")


def test_files_of_others_are_named_and_passed_over(shared: Path) -> None:
    (shared / "epoch-12").write_text("short")
    (shared / f"epoch-{0:016}").write_text("zero")
    (shared / "README").write_text("hello")
    found = ask(shared)
    assert found.top is None and found.odd == ("README", f"epoch-{0:016}", "epoch-12")
    assert "README" in str(OddFiles(found.odd))


def test_what_is_damaged_is_not_read() -> None:
    data = packed(Claim(1, A, Incarnation(1), 5))
    assert unpacked(data, Claim) == Claim(1, A, Incarnation(1), 5)
    for i in range(len(data)):
        assert unpacked(data[:i], Claim) is None
        assert unpacked(data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :], Claim) is None
    assert unpacked(None, Claim) is None


def test_names_that_are_no_file_names_are_spelt(shared: Path) -> None:
    for name in ("../up", "a/b", "ä b", "."):
        place = outside(shared, node=NodeId(name))
        answer(Folder(shared, name), ToDirectory(number=1, do="stand", epoch=1, standing=2.0), place)
    assert {candidate.node for candidate in ask(shared).candidates} == {"../up", "a/b", "ä b", "."}


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda path: (path / "doyen.group").unlink(), "not prepared, or not mounted"),
        (lambda path: (path / "doyen.group").write_text("x"), "cannot be read"),
    ],
)
def test_a_directory_that_is_not_fit_says_why(shared: Path, spoil: Callable[[Path], Any], words: str) -> None:
    spoil(shared)
    with pytest.raises(OSError, match=words):
        ask(shared)


def test_preparing_names_what_is_wrong(shared: Path) -> None:
    with pytest.raises(ConfigError, match=r"belongs to group 'g'"):
        Files().prepare(outside(shared, group="h"))
    with pytest.raises(ConfigError, match="No such file or directory: make or mount it"):
        Files().prepare(outside(shared / "none"))
    (shared / "file").write_text("")
    with pytest.raises(ConfigError, match="Not a directory: give a directory"):
        Files().prepare(outside(shared / "file"))


def test_a_file_system_without_hard_links_is_refused(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(OSError, match="no hard links"):
        ask(shared, "claim", epoch=1)
    assert os.listdir(shared) == ["doyen.group"]


@pytest.mark.parametrize(
    ("kind", "options", "verdict"),
    [
        ("nfs4", "rw,vers=4.2,hard,noac,lookupcache=none,addr=1.2.3.4", "ok"),
        ("nfs", "rw,sync,acregmin=0,acregmax=0,acdirmin=0,acdirmax=0,hard,noac,lookupcache=none", "ok"),
        ("nfs4", "rw,vers=4.2,hard,noac", "wrong"),
        ("nfs", "rw,lookupcache=none,acregmin=0", "wrong"),
        ("cifs", "rw,cache=strict", "note"),
        ("ext4", "rw", "note"),
    ],
)
def test_a_mount_that_reads_old_is_refused(kind: str, options: str, verdict: str) -> None:
    line = f"36 35 0:98 / /mnt/money rw,noatime shared:1 - {kind} server:/money {options}"
    found = judged(Path("/mnt/money"), line)
    assert found[0] == verdict and kind in found[1]
    assert ("noac,lookupcache=none" in found[2]) == (verdict == "wrong")


def test_what_can_be_known_of_a_directory_is_said(shared: Path) -> None:
    def void(*_: object) -> None:
        pass

    assert [verdict for verdict, _, _ in Files().examine(outside(shared), void)] == ["ok", "note"]
    theirs = outside(shared, node=B)
    answer(Folder(shared, B), ToDirectory(number=1, do="claim", epoch=1), theirs)
    answer(Folder(shared, B), ToDirectory(number=1, do="renew", epoch=1, phase="acting", serial=1), theirs)
    said = [what for _, what, _ in Files().examine(outside(shared), void)]
    assert said[0].endswith("epoch 1, b") and said[-1] == "no renewal of b is seen here"
    again = ToDirectory(number=1, do="renew", epoch=1, phase="acting", serial=2)
    found = Files().examine(outside(shared), lambda seconds: void(answer(Folder(shared, B), again, theirs)))
    assert [what for _, what, _ in found][-1] == "renewals of b are seen here"
    assert os.listdir(shared).count("doyen.group") == 1 and len(os.listdir(shared)) == 3
    assert [verdict for verdict, _, _ in Files().examine(outside(shared, group="h"), void)] == ["wrong"]


@pytest.mark.parametrize("phase", ["claimed", "acting", "released"])
@pytest.mark.parametrize("own", [True, False])
def test_renewals_are_waited_for_only_where_another_acts(shared: Path, phase: str, own: bool) -> None:
    whose = outside(shared) if own else outside(shared, node=B)
    answer(Folder(shared, whose.node), ToDirectory(number=1, do="claim", epoch=1), whose)
    if phase != "claimed":
        asked = ToDirectory(number=1, do="renew", epoch=1, phase=phase, serial=1)
        answer(Folder(shared, whose.node), asked, whose)
    pauses: list[float] = []
    said = [what for _, what, _ in Files().examine(outside(shared), pauses.append)]
    waits = phase == "acting" and not own
    assert bool(pauses) == waits and ("no renewal of b is seen here" in said) == waits


def test_a_file_that_cannot_be_removed_is_left(shared: Path) -> None:
    Folder(shared, A).do(Remove("nothing"))
    Folder(shared, A).do(Link("made", b"once"))
    Folder(shared, A).do(Link("made", b"twice"))
    assert (shared / "made").read_bytes() == b"once"


@pytest.mark.parametrize(
    ("phase", "free", "lease"),
    [("claimed", False, 9), ("claimed", True, 3), ("acting", False, 3), ("released", False, 9)],
)
def test_a_claimant_that_never_acted_may_still_wait_for_a_longer_lease_than_its_own(
    shared: Path, phase: Any, free: bool, lease: int
) -> None:
    ask(shared, "claim", epoch=4, lease=9)
    top = ask(shared, "renew", epoch=4, serial=1, phase=phase, lease=3, free=free).top
    assert top is not None and (top.epoch, top.node, top.phase, top.free, top.lease) == (4, A, phase, free, lease)


def test_a_configuration_renews_at_least_twice_in_a_lease_and_candidates_wait_for_a_look() -> None:
    assert DirectoryConfig(lease=seconds(2), renew_interval=seconds(1), stand_time=seconds(1))
    for wrong in ({"renew_interval": seconds(1) + 1, "stand_time": seconds(2)}, {"stand_time": ms(399)}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            DirectoryConfig(**({"lease": seconds(2)} | wrong))


def test_a_claim_that_cannot_be_read_is_named_among_the_odd_files(shared: Path) -> None:
    ask(shared, "claim", epoch=3, lease=5)
    assert ask(shared).odd == ()
    (shared / numbered("epoch", 3)).write_bytes(b"garbled")
    found = ask(shared)
    assert found.odd == (numbered("epoch", 3),) and found.top is not None and found.top.node is None


def test_what_was_written_is_on_the_disk_with_its_name_before_anybody_is_answered(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[str] = []
    fsync = os.fsync

    def noted(opened: int) -> None:
        flushed.append(os.readlink(f"/proc/self/fd/{opened}"))
        fsync(opened)

    monkeypatch.setattr(os, "fsync", noted)
    for do in ("claim", "renew", "stand"):
        flushed.clear()
        ask(shared, do, epoch=1, standing=1.0 if do == "stand" else None)
        assert len(flushed) == 2 and flushed[0].startswith(f"{shared}/.doyen-") and flushed[1] == str(shared)


def test_a_candidacy_that_cannot_be_read_or_is_of_another_epoch_is_none_and_five_odd_files_are_named(
    shared: Path,
) -> None:
    (shared / numbered("stands", 3, "b")).write_bytes(b"garbled")
    (shared / numbered("stands", 4, "c")).write_bytes(packed(Candidate(3, C, 1.0)))
    for i in range(9):
        (shared / f"odd{i}").touch()
    found = ask(shared)
    assert found.candidates == () and found.odd == tuple(f"odd{i}" for i in range(5))


def test_every_wait_of_an_election_makes_it_settle_later() -> None:
    for field, times in (("renew_interval", 16), ("stand_time", 8)):
        longer = replace(CONFIG, **{field: getattr(CONFIG, field) + 1})
        assert longer.settle_max - CONFIG.settle_max == times
    assert CONFIG.settle_max == 2 * (2 * GUARD + 8 * ms(200) + 4 * ms(300))
