-------------------------------- MODULE Pole --------------------------------
(***************************************************************************)
(* What keeps two leaders of POLE apart, and nothing else: who is elected, *)
(* and how soon, is left open.                                             *)
(*                                                                         *)
(* A leader sends heartbeats in its epoch.  Each voter grants an epoch     *)
(* once, on its disk, and acks heartbeats; with each ack it is bound for a *)
(* guard.  A leader acts while acks of a majority are younger than the     *)
(* lease, counted from when it sent the heartbeats that were acked.        *)
(*                                                                         *)
(* Messages are lost, late, doubled and overtaken: `sent` only grows, and  *)
(* what is in it may be heard at any time, often or never.  Disks are      *)
(* slow: a record is durable some time after it was written.  Nodes crash  *)
(* at any time, and come back with what is on their disks.                 *)
(*                                                                         *)
(* All clocks have the same rate here.  `doyen prove` has the arithmetic   *)
(* of clocks that drift, and of the guard that makes up for it.            *)
(*                                                                         *)
(* spec.py says the same in Python; tests/audit holds the two equal.       *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS Node,      \* The voters.
          NoOne,     \* No node.
          Lease,     \* For how long a leader acts after a heartbeat that a majority acked.
          Guard,     \* For how long a voter is bound after an ack.
          EpochMax, TimeMax, BeatMax, ResignMax, RestartMax    \* Bounds of what is explored.

VARIABLES clock,     \* Of each node.
          mem,       \* What each voter has promised,
          writing,   \* its records on their way to the disk, the oldest first,
          disk,      \* and what is on the disk.
          bound,     \* Until when each voter is bound to whom it acked last.
          lead,      \* The epoch in which each node leads; 0: in none.
          answer,    \* Of each node, by voter: the last of its heartbeats that was acked.
          sent,      \* All messages.
          led,       \* All <<epoch, node>> that ever led.
          restarts

vars == <<clock, mem, writing, disk, bound, lead, answer, sent, led, restarts>>

Epoch == 1..EpochMax
Majority(nodes) == 2 * Cardinality(nodes) > Cardinality(Node)
Fresh == [epoch |-> 0, granted |-> 0, to |-> NoOne]
Nothing == [epoch |-> 0, at |-> 0]

BeatOf(n, e, at)   == [type |-> "beat", from |-> n, to |-> NoOne, epoch |-> e, at |-> at]
AckOf(v, n, e, at) == [type |-> "ack", from |-> v, to |-> n, epoch |-> e, at |-> at]
EndOf(n, e)        == [type |-> "resigned", from |-> n, to |-> NoOne, epoch |-> e, at |-> 0]

Beats == {m \in sent : m.type = "beat"}
Ends == {m \in sent : m.type = "resigned"}
HasClaimed(n, e) == \E m \in Beats : m.from = n /\ m.epoch = e
HasResigned(n, e) == \E m \in Ends : m.from = n /\ m.epoch >= e

IsWritten(n) == writing[n] = <<>>
Holds(n, e) == IsWritten(n) /\ mem[n].granted = e /\ mem[n].to = n
IsFree(v, n) == \/ mem[v].to = NoOne
                \/ mem[v].to = n /\ v # n
                \/ clock[v] >= bound[v]

\* Whose acks of epochs from e on are younger than the lease.
Answering(n, e) == {v \in Node : answer[n][v].epoch >= e /\ clock[n] < answer[n][v].at + Lease}
Acts(n) == lead[n] > 0 /\ Majority(Answering(n, lead[n]))

-----------------------------------------------------------------------------
Init == /\ clock = [n \in Node |-> 0]
        /\ mem = [n \in Node |-> Fresh] /\ disk = mem /\ writing = [n \in Node |-> <<>>]
        /\ bound = [n \in Node |-> 0]
        /\ lead = [n \in Node |-> 0]
        /\ answer = [n \in Node |-> [v \in Node |-> Nothing]]
        /\ sent = {} /\ led = {} /\ restarts = 0

\* A node claims an epoch.  Its own vote counts from the heartbeat on, once it is on the disk.
Claim(n, e) ==
    /\ IsWritten(n) /\ e >= mem[n].epoch /\ ~HasResigned(n, e)
    /\ sent' = sent \cup {BeatOf(n, e, clock[n])}
    /\ answer' = IF Holds(n, e) THEN [answer EXCEPT ![n][n] = [epoch |-> e, at |-> clock[n]]] ELSE answer
    /\ UNCHANGED <<clock, mem, writing, disk, bound, lead, led, restarts>>

\* A leader says that it acts, and asks for further acks.
Renew(n, e) == lead[n] = e /\ Acts(n) /\ Claim(n, e)

\* A voter grants an epoch: once, never back, to somebody that claims it, and not while it is bound to another.
Grant(v, n, e) ==
    /\ e > mem[v].granted /\ e >= mem[v].epoch
    /\ IsFree(v, n)
    /\ IF v = n THEN ~HasResigned(n, e) ELSE HasClaimed(n, e) /\ lead[v] = 0
    /\ mem' = [mem EXCEPT ![v] = [epoch |-> e, granted |-> e, to |-> n]]
    /\ writing' = [writing EXCEPT ![v] = Append(@, mem'[v])]
    /\ bound' = IF v = n THEN [bound EXCEPT ![v] = clock[v]] ELSE bound
    /\ UNCHANGED <<clock, disk, lead, answer, sent, led, restarts>>

\* A voter promises not to go back below an epoch.
Promise(v, e) ==
    /\ e > mem[v].epoch
    /\ mem' = [mem EXCEPT ![v].epoch = e]
    /\ writing' = [writing EXCEPT ![v] = Append(@, mem'[v])]
    /\ UNCHANGED <<clock, disk, bound, lead, answer, sent, led, restarts>>

Write(v) ==
    /\ ~IsWritten(v)
    /\ disk' = [disk EXCEPT ![v] = Head(writing[v])]
    /\ writing' = [writing EXCEPT ![v] = Tail(@)]
    /\ UNCHANGED <<clock, mem, bound, lead, answer, sent, led, restarts>>

\* A voter acks a heartbeat of whom it granted its last epoch, once that is on the disk, and is bound from now on.
Ack(v, n, e, at) ==
    /\ v # n /\ BeatOf(n, e, at) \in sent
    /\ IsWritten(v) /\ mem[v] = [epoch |-> e, granted |-> e, to |-> n]
    /\ bound' = [bound EXCEPT ![v] = clock[v] + Guard]
    /\ sent' = sent \cup {AckOf(v, n, e, at)}
    /\ UNCHANGED <<clock, mem, writing, disk, lead, answer, led, restarts>>

Hear(n, v, e, at) ==
    /\ AckOf(v, n, e, at) \in sent
    /\ answer' = IF at >= answer[n][v].at THEN [answer EXCEPT ![n][v] = [epoch |-> e, at |-> at]] ELSE answer
    /\ UNCHANGED <<clock, mem, writing, disk, bound, lead, sent, led, restarts>>

\* A node leads in an epoch, once in its life, that a majority has granted it, itself included.
Lead(n, e) ==
    /\ e > lead[n] /\ Holds(n, e) /\ ~HasResigned(n, e) /\ <<e, n>> \notin led
    /\ Majority({v \in Answering(n, e) : answer[n][v].epoch = e})
    /\ lead' = [lead EXCEPT ![n] = e]
    /\ led' = led \cup {<<e, n>>}
    /\ UNCHANGED <<clock, mem, writing, disk, bound, answer, sent, restarts>>

Stop(n) ==
    /\ lead[n] > 0
    /\ lead' = [lead EXCEPT ![n] = 0]
    /\ UNCHANGED <<clock, mem, writing, disk, bound, answer, sent, led, restarts>>

\* A node that does not lead says that it will never act in that epoch, or in one before it.
\* Somebody else may say so for a process that has ended: its will.
Resign(n, e) ==
    /\ lead[n] = 0
    /\ sent' = sent \cup {EndOf(n, e)}
    /\ UNCHANGED <<clock, mem, writing, disk, bound, lead, answer, led, restarts>>

\* A voter hears of it, and is no longer bound.
Release(v, n, e) ==
    /\ EndOf(n, e) \in sent
    /\ bound' = IF mem[v].to = n /\ mem[v].granted <= e THEN [bound EXCEPT ![v] = 0] ELSE bound
    /\ UNCHANGED <<clock, mem, writing, disk, lead, answer, sent, led, restarts>>

\* A node crashes, and starts again; the first k records on their way have reached the disk.
Restart(n, k) ==
    /\ k <= Len(writing[n])
    /\ disk' = IF k = 0 THEN disk ELSE [disk EXCEPT ![n] = writing[n][k]]
    /\ mem' = [mem EXCEPT ![n] = disk'[n]]
    /\ writing' = [writing EXCEPT ![n] = <<>>]
    /\ bound' = [bound EXCEPT ![n] = IF disk'[n].to = NoOne THEN clock[n] ELSE clock[n] + Guard]
    /\ lead' = [lead EXCEPT ![n] = 0]
    /\ answer' = [answer EXCEPT ![n] = [v \in Node |-> Nothing]]
    /\ restarts' = restarts + 1
    /\ UNCHANGED <<clock, sent, led>>

\* A node names the leader of an epoch: only one that did lead in it.
Name(v, n, e) == <<e, n>> \in led /\ UNCHANGED vars

Tick == /\ clock' = [n \in Node |-> clock[n] + 1]
        /\ UNCHANGED <<mem, writing, disk, bound, lead, answer, sent, led, restarts>>

-----------------------------------------------------------------------------
\* What is explored: a few epochs, heartbeats and restarts within a few ticks.
Next ==
    \/ \E n \in Node : clock[n] < TimeMax /\ Tick
    \/ \E n \in Node, e \in Epoch : Cardinality(Beats) < BeatMax /\ Claim(n, e)
    \/ \E v, n \in Node, e \in Epoch : Grant(v, n, e)
    \/ \E n \in Node : Write(n) \/ Stop(n)
    \/ \E m \in Beats, v \in Node : Ack(v, m.from, m.epoch, m.at)
    \/ \E m \in sent : m.type = "ack" /\ Hear(m.to, m.from, m.epoch, m.at)
    \/ \E n \in Node, e \in Epoch : Lead(n, e)
    \/ \E n \in Node, e \in Epoch : Cardinality(Ends) < ResignMax /\ HasClaimed(n, e) /\ Resign(n, e)
    \/ \E m \in Ends, v \in Node : Release(v, m.from, m.epoch)
    \/ \E n \in Node : restarts < RestartMax /\ \E k \in 0..Len(writing[n]) : Restart(n, k)

Spec == Init /\ [][Next]_vars

\* The promise.
OneActs == \A a, b \in Node : Acts(a) /\ Acts(b) => a = b
OneLeaderPerEpoch == \A one, other \in led : one[1] = other[1] => one = other

=============================================================================
