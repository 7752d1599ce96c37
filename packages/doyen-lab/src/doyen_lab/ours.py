"""Our own processes on a mesh: `doyen agent`s that elect over a weak membership, one per guest."""

from collections.abc import Callable

from msgspec import Struct

from doyen.core.clock import Duration, Instant, format_duration, ms
from doyen.net.driver import boot_time_ns
from doyen.node.told import Told
from doyen.testing.processes import LocalCluster, MemberState
from doyen_lab.mesh import Mesh

PORT = 7600
MISSING_MAX = {0.0: 2, 0.05: 2, 0.1: 3, 0.15: 5, 0.2: 7}  # [CTOL §VII-B] c of the 16 nodes, by drop.


class Setting(Struct, frozen=True, kw_only=True):
    """What every process of the group is told; the same for all."""

    membership: str = "medley"
    election: str = "hybrid"
    missing_max: int = 2
    period: Duration = ms(2500)
    ack_timeout: Duration = ms(500)
    suspicion_timeout: Duration = ms(3000)
    response_timeout: Duration = ms(200)
    flags: tuple[str, ...] = ()

    def as_flags(self) -> list[str]:
        own = {
            "period": self.period,
            "ack-timeout": self.ack_timeout,
            "suspicion-timeout": self.suspicion_timeout,
        }
        found = ["--membership", self.membership, "--election", self.election]
        for name, value in own.items():
            found += [f"--{self.membership}-{name}", format_duration(value)]
        found += ["--ctolerant-missing-max", str(self.missing_max)]
        found += ["--ctolerant-response-timeout", format_duration(self.response_timeout)]
        return [*found, *self.flags]


def paper_missing_max(drop: float, size: int) -> int:
    """The paper's c for the nearest drop, as far as so few nodes can answer."""
    return min(MISSING_MAX[min(MISSING_MAX, key=lambda known: abs(known - drop))], max(0, size - 2))


class MeshGroup:
    """One agent per guest of a tenant, n00 on the first; an async context manager."""

    def __init__(
        self, mesh: Mesh, tenant: str, setting: Setting, *flags: str, on_told: Callable[[Told], None] | None = None
    ) -> None:
        self.mesh, self.tenant, self.setting = mesh, tenant, setting
        self.names = [f"n{i:02}" for i in range(mesh.size)]
        common = [*setting.as_flags(), "--group-size", str(mesh.size), "--status-every", "600", *flags]
        self.cluster = LocalCluster(tenant, None, flags=common, on_told=on_told)

    async def __aenter__(self) -> "MeshGroup":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cluster.stop()

    @property
    def members(self) -> list[MemberState]:
        return [self.cluster.members[name] for name in self.names]

    async def start(self) -> None:
        for i in range(self.mesh.size):
            await self.start_one(i)
        await self.cluster.until_started(60)

    async def start_one(self, i: int) -> MemberState:
        guests = self.mesh.guests[self.tenant]
        flags = ["--bind", f"{guests[i].ipv4}:{PORT}"]
        for j in {0, self.mesh.size - 1} - {i}:  # Two seeds, in opposite corners.
            flags += ["--seed", f"{guests[j].ipv4}:{PORT}"]
        if self.setting.membership == "medley":
            for j, name in enumerate(self.names):
                if j != i:
                    flags += ["--hops", f"{name}={self.mesh.hop_count(i, j)}"]
        return await self.cluster.start(self.names[i], *flags, wrap=guests[i].wrap)

    async def agreement(self, timeout_s: float, *, unchanged_s: float = 0.0) -> tuple[Instant, str]:
        """Since when, and whom, all living, reachable members name as leader."""
        since = await self.cluster.agreement(timeout_s, unchanged_s=unchanged_s)
        leader = self.cluster.agreed()
        assert leader is not None
        return since, leader

    def cut(self, name: str) -> Instant:
        """Silently: the process runs on, but nothing reaches it and nothing of it arrives."""
        at = boot_time_ns()
        self.mesh.cut(self.tenant, self.names.index(name))
        self.cluster.cut_off.add(name)
        return at

    def mend(self, name: str) -> None:
        self.mesh.mend(self.tenant, self.names.index(name))
        self.cluster.cut_off.discard(name)
