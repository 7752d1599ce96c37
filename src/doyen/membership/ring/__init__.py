"""Arbitrated membership on a ring.  [ARB]

config.py          both modes, and every bound that follows
geometry.py        points, keys and neighbours on the ring
messages.py        messages, timers and facts: the whole interface
arbitrator.py      one arbitrator's memory and judgement
pair.py            what is kept of a neighbour, of an arbitration and of an upgrade
lease.py           how a neighbour is watched
request.py         arbitration on the asker's side
upgrade.py         a pair's group in a new version
spread.py          what rides on the leases; view.py: what a node sees of it
neighbourhood.py   whom to watch: invitation, release
join.py            the four phases of joining; admission.py: the other side of them
machine.py         the machine: suspicion, recovery, leaving
"""
