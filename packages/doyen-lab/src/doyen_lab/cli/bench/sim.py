"""`doyen bench sim`."""

from typing import Any

import click

from doyen.cli.output import print_json, progress
from doyen_lab.simulators.sim import Workload, contests, measure

TARGETS = {
    ("announce", "simpy"): 10,
    ("announce", "simpy_bare"): 3,
    ("detector", "simpy"): 6,
    ("detector", "simpy_bare"): 1.4,
}


@click.command("sim", help="The simulator beside SimPy: ratios of CPU time, measured in one run, turn by turn.")
@click.option("--quick", is_flag=True, help="A small one, to see that it works; its figures mean nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(quick: bool, as_json: bool) -> None:
    load = Workload.quick() if quick else Workload()
    with progress("bench sim", contests(load)) as advance:
        found = measure(load, lambda: advance(1))
    if as_json:
        print_json(found)
    else:
        _print(found)


def _print(found: dict[str, Any]) -> None:
    click.echo("how many times as fast as SimPy (CPU time, best of the repetitions, set-up included)")
    for kind, peers in (
        ("announce", found["announce"]),
        ("election alone", found["election_alone"]),
        ("detector", found["detector"]),
    ):
        for peer, ratio in peers.items():
            wanted = TARGETS.get((kind, peer))
            aim = f"   aim {wanted}" if wanted else ""
            click.echo(f"  {kind:15} {peer:11} {ratio.ratio:7.2f}×   ({ratio.low:.2f} to {ratio.high:.2f}){aim}")
    kernel = found["kernel"]["simpy"]
    click.echo(f"  {'kernel':15} {'simpy':11} {kernel.ratio:7.0f}×   ({kernel.low:.0f} to {kernel.high:.0f})   aim 200")
    few, many = found["scale"]["nodes"]
    click.echo(f"  at N={many} {found['scale']['ratio']:.2f} of the deliveries per second at N={few}   aim 0.5")
    for kind, speeds in found["events_per_second"].items():
        click.echo(f"  deliveries/s, {kind}: " + ", ".join(f"{peer} {speed:,}" for peer, speed in speeds.items()))
    click.echo(f"  load of the machine {found['machine']['load']:.1f} on {found['machine']['cores']} cores")
