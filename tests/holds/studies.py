"""The command lines of studies whose figures and trace hashes are kept, small and with fixed seeds.

`@name` stands for a file, as in `lines.py`.
"""

from typing import Final

from lines import ELECTIONS

GRAPH: Final = "0-1,0-2,1-3,1-4,2-4,2-5,3-6,4-6,4-7,5-7,6-8,7-9,8-10,9-10,9-11"
SPANNING: Final = f"sim spanning --graph {GRAPH} --quality @quality.csv"
ARBITRATION: Final = "sim arbitration --runs 2 --jobs 1 --nodes 10"
CHURN: Final = "sim ctolerant --nodes 16 --runs 4 --jobs 1 --warmup 20s"

LINES: Final = (
    # Announce-listen.
    *(
        f"sim announce --variant {variant} --nodes 8 --loss .3 --runs 6 --jobs 1 --seed 3"
        for variant in ("le-a", "le-s", "le-m", "sup", "al", "sup-al-receipt", "sup-al-redraw", "sup-al-spread")
    ),
    *(
        f"sim announce --nodes 6 --loss .2 --listen 3s --event {event} --runs 4 --jobs 1"
        for event in ("leader-departs", "false-departure", "joiner-better", "joiner-worse")
    ),
    *(
        f"sim announce --nodes 9 --loss .2 --loss-model {model} --timer exponential --runs 4 --jobs 1"
        for model in ("none", "correlated", "load")
    ),
    "sim announce --nodes 9 --leader-count 3 --loss .2 --rank-map likely --query 500ms --runs 4 --jobs 1",
    "sim announce --nodes 6 --listen 3s --event leader-departs --bye --bye-loss .2 --ageing 2s --runs 4 --jobs 1",
    # Churn-tolerant.
    *(f"{CHURN} --variant {variant}" for variant in ("base", "optimistic", "preferred", "hybrid", "local")),
    *(f"{CHURN} --topology {shape} --membership swim --missing-max auto" for shape in ("grid", "cluster", "complete")),
    f"{CHURN} --membership heartbeat --initiators 3 --crash-initiator --failure-max 1",
    f"{CHURN} --variant preferred --handicap --handicap-form traffic --exclusion top --notify-retries 0",
    "sim walkthrough ctol/figure1",
    "sim walkthrough ctol/figure2",
    # Membership.
    *(
        f"sim membership --protocol {protocol} --nodes 12 --seconds 40 --warm-up 15 --topology {shape}"
        for protocol in ("swim", "medley", "heartbeat")
        for shape in ("complete", "random")
    ),
    "sim membership --protocol medley --nodes 16 --seconds 40 --warm-up 15 --handicap --drop .15 --crash 3",
    # Spanning.
    f"{SPANNING} --initiators 0",
    f"{SPANNING} --initiators 3,7,11 --delay random --seed 4",
    f"{SPANNING} --initiators 0 --fail-node 4@2.5 --recover 4@6",
    f"{SPANNING} --initiators 0 --fail-node 4@3 --recover 4@5 --fail-node 7@4 --recover 7@5.5 --durable --delay random",
    f"{SPANNING} --initiators 0 --fail-node 2@4 --fail-link 1-4@5 --recover 2@7 --heal-link 1-4@30 --seed 2",
    f"{SPANNING} --initiators 0 --fail-node 0@3 --recover 0@4 --pulse 8",
    f"{SPANNING} --initiators 0,10 --fail-link 6-8@3 --fail-link 7-9@3 --heal-link 6-8@60 --pulse 12 --silent",
    f"{SPANNING} --initiators 5 --fail-node 7@6 --recover 7@7 --fail-node 11@9 --recover 11@80 --silent --pulse 6",
    f"{SPANNING} --initiators 2 --fail-link 0-1@1 --fail-link 2-4@2 --fail-link 4-7@4 --co-parent-hops 1 --seed 9",
    # Arbitration.
    f"{ARBITRATION} --crash 2 --joins 2 --leader",
    f"{ARBITRATION} --mode paper --crash 2 --adjacent --events 2",
    f"{ARBITRATION} --arbiters central --crash 1 --crash-arbiters 1",
    f"{ARBITRATION} --cut-link --loss .02 --drift .001 --delay 5ms",
    f"{ARBITRATION} --leave 2 --joins 1 --equal-phases",
    *(f"{ARBITRATION} --partition 6/4 --arcs --behaviour {how}" for how in ("collapse", "majority", "split")),
    *(f"sim arbitration --scenario {name}" for name in ("half-is-no-majority", "crash-after-boot", "join-displaces")),
    # Elections by score.
    *(
        f"sim pole --deployment {place} --oracle {oracle}"
        for place, oracle in (
            ("1", "latency"),
            ("1", "history"),
            ("2", "request"),
            ("2", "consensus"),
            ("3", "worst-case"),
            ("3", "rotating"),
            ("two-dc", "composite"),
            ("two-dc", "preference:p3,p4"),
        )
    ),
    "sim pole --deployment recovery --snapshot 100MB --outdated p1,p2 --jitter 2% --share .8",
    "sim pole --chaos --nodes 3 --runs 3 --jobs 1",
    "sim pole --chaos --nodes 5 --runs 3 --jobs 1 --seed 11",
    # Scenarios.
    *(f"sim run @scenarios/{name}.toml" for name in ("lan", "partition", "radio", "storm", "wake_up", "receipt")),
    "sim run @scenarios/storm.toml --runs 3 --jobs 1 --seed 5 --run-length 30s --run-wire",
    "sim run --group-nodes 7 --topology-shape ring --network-loss-model bursts --network-loss-prob .1"
    " --churn-random-crash-rate 10 --churn-random-cut-rate 5 --churn-random-pause-rate 5 --clocks-drift-max .001"
    " --group-durable-terms --run-disk-delay 20ms",
)

CALCULATED: Final = (  # By formulas, without any machine.
    *(f"presets --group-size {size} --election {election}" for size in (3, 40) for election in ELECTIONS),
    *(f"advise --nodes {nodes} --loss {loss} --delay 20ms" for nodes in (3, 100) for loss in (0.01, 0.3)),
    *(
        f"analyze announce --nodes 10 --loss .1 --variant {variant} --loss-model {model}"
        for variant in ("le-a", "le-s", "le-m", "sup", "al")
        for model in ("none", "correlated", "uncorrelated")
    ),
    "analyze announce --nodes 100 --loss .4 --quantity tmax --as-printed",
    "analyze arbitration --nodes 20 --drift .001 --delay 10ms",
    "score weights @experts.toml",
    "score weights @experts.toml --aggregate owa --quantifier at-least-half",
    "score topsis @table.csv --attributes @attributes.toml",
    *(
        f"score pole --rtt @rtt.csv --rates @rates.csv --oracle {oracle} {more}".strip()
        for oracle in ("consensus", "latency", "worst-case", "request")
        for more in ("", "--exclude p1 --reattribute")
    ),
)

SLOW: Final = tuple(  # Seconds each.
    f"sim arbitration --scenario {name}"
    for name in (
        "link-cut",
        "link-cut-equal-phases",
        "proposer-dies",
        "stale-request",
        "aborted-upgrades",
        "one-request-lost",
        "loser-hears-nothing",
        "central-majority-gone",
        "joiner-dies",
        "one-way-requests",
        "partition-16-16-paper-arcs",
        "partition-16-16-practical-random-collapse",
        "partition-16-16-practical-arcs-majority",
        "partition-24-8-paper-random",
        "partition-24-8-practical-arcs-split",
        "partition-24-8-practical-random-majority",
    )
)
