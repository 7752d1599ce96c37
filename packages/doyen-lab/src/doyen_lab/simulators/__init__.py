"""The simulator beside its peers: the same workloads on doyen and on SimPy, timed in one process, turn by turn.

    workloads.py      what is run, and what a run tells of itself, so that peers can be held equal
    ours.py           on doyen's simulator, with its trace hash and its fault table
    simpy_manual.py   SimPy as its manual writes it: a process per node and per message, and stores
    simpy_inline.py   the same without stores
    simpy_bare.py     SimPy's queue under doyen's machines, one event per delivery
    timing.py         interleaved repetitions, ratios of CPU time and their spread
    sim.py            `doyen bench sim`

How it is measured and what came out: docs/explanation/speed.md.
"""
