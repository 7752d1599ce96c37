"""`doyen sim`: ask the simulator."""

from doyen.cli.lazy import LazyGroup

STUDIES = ("announce", "ctolerant", "walkthrough", "membership", "spanning", "arbitration", "pole")

command = LazyGroup(
    "sim",
    __name__,
    {
        "announce": "Announce-listen elections: LE-A, LE-S, LE-M and their baselines.  [LE Ch. 5]",
        "ctolerant": "Churn-tolerant elections: base, optimistic, preferred, hybrid, and local.  [CTOL]",
        "walkthrough": "A paper's worked example, step by step: ctol/figure1, ctol/figure2.",
        "membership": "Weak membership: SWIM, Medley, gossiped heartbeats.  [CTOL]",
        "spanning": "Multi-attribute election over an arbitrary graph, with failures.  [MADM Ch. 6]",
        "arbitration": "A ring with leases, arbitrators, joins and a leader by key.  [ARB]",
        "pole": "Elections by application score: the paper's deployments, and chaos.  [POLE]",
        "run": "Run a scenario file (TOML), or the same given by flags.",
        "replay": "Run one seed again, from the line that a failure printed.",
    },
    help="Simulate an election, or a scenario file: same seed, same run, to the last byte of its trace.",
    elsewhere=dict.fromkeys(STUDIES, "doyen-papers"),
)
