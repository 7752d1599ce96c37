"""The setting of an announce-listen experiment: shared by closed forms, machine runs and kernels.  [LE §5.3]"""

from math import inf
from typing import Literal

from msgspec import Struct

from doyen.errors import ConfigError

Variant = Literal["le-a", "le-s", "le-m", "sup", "al", "sup-al-receipt", "sup-al-redraw", "sup-al-spread"]
LossModel = Literal["none", "correlated", "uncorrelated", "load"]
Timer = Literal["uniform", "exponential"]
Event = Literal["start", "leader-departs", "false-departure", "joiner-better", "joiner-worse"]

NODES_MAX = 1_000_000


class Setting(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One cell of Chapter 5: a variant, a group, a network and what happens to it.  Times are seconds."""

    variant: Variant = "le-s"
    nodes: int = 10  #: N.  Incumbents, where a joiner comes; the departing leader included, where it leaves.
    loss: float = 0.0  #: l, the chance that one announcement (or one delivery of it) is lost.
    loss_model: LossModel = "uncorrelated"
    timer: Timer = "uniform"  #: Distribution of the wake-up time in [0, suppress_s).
    announce_s: float = 1.0  #: T_A.
    listen_s: float = inf  #: T_L.
    suppress_s: float = 1.0  #: T_S; counts as 0 for le-a and al.
    delay_s: float = 0.1  #: Δ, the same for every delivery.
    event: Event = "start"
    load_capacity: float = 2000.0  #: Load model: messages that together add one more chance `loss` of being lost.
    load_window_s: float = 0.1  #: Load model: messages sent within this time arrive "together".

    def __post_init__(self) -> None:
        for field, given, holds, wanted in (
            ("nodes", self.nodes, 1 <= self.nodes <= NODES_MAX, f"is out of range: give 1 to {NODES_MAX}"),
            ("loss", self.loss, 0 <= self.loss <= 1, "is not a probability: give a number from 0 to 1"),
            ("announce_s", self.announce_s, 0 < self.announce_s < inf, "must be positive and finite"),
            ("listen_s", self.listen_s, self.listen_s > 0, "must be positive (inf: never)"),
            ("suppress_s", self.suppress_s, 0 <= self.suppress_s < inf, "must be 0 or more, and finite"),
            ("delay_s", self.delay_s, 0 <= self.delay_s < inf, "must be 0 or more, and finite"),
            ("load_capacity", self.load_capacity, self.load_capacity > 0, "must be positive"),
            ("load_window_s", self.load_window_s, self.load_window_s >= 0, "must be 0 or more"),
        ):
            if not holds:
                raise ConfigError(f"{given} {wanted}", field=field)

    @property
    def loss_prob(self) -> float:
        """Return the loss that counts: nothing is lost under the model `none`."""
        return 0.0 if self.loss_model == "none" else self.loss

    @property
    def suppress_interval_s(self) -> float:
        """Return T_S as the variant uses it: [LE §5.3] LE-A is LE-S with T_S = 0."""
        return 0.0 if self.variant in ("le-a", "al") else self.suppress_s

    def command(self, *always: str) -> str:
        """Return the command that simulates this setting: a flag per field that is not at its default."""
        words = ["doyen sim announce"]
        for field, default in zip(self.__struct_fields__, self.__struct_defaults__, strict=True):
            given = getattr(self, field)
            if given != default or field in ("variant", "nodes", *always):
                unit = "s" if field.endswith("_s") and given != inf else ""
                words.append(f"--{field.removesuffix('_s').replace('_', '-')} {given}{unit}")
        return " ".join(words)
