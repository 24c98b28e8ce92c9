"""What a layer group's flows put on every link, channel and DRAM port."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slowpoke_mapping.chip import ChipConfig
from slowpoke_mapping.lowering import deliveries
from slowpoke_mapping.mapping import INTERLEAVED
from slowpoke_mapping.program import Role
from slowpoke_mapping.ragged import Ints, positions_within, take_rows
from slowpoke_mapping.routes import Routes
from slowpoke_mapping.traffic import GroupPlan


@dataclass(frozen=True, slots=True)
class Load:
    """Bytes by channel and port: `unit` of every batch unit, `once` of the first unit only.

    A share is what one flow sends from or to one port or core. It visits each link of the tree of
    its routes once (each link of every route, on a chip without multicast).

    Attributes:
        share_flow: (n_shares,) flow of each share.
        share_port: (n_shares,) DRAM port, or -1 between cores.
        share_bytes: (n_shares,) bytes; share_messages: (n_shares,) messages they are cut into.
        once: (n_shares,) True for weights that stay.
        visit_share: Share of each visit of a channel.
        visit_channel: Channel (links, injection, ejection) of each visit.
        n_links: Directed links: channels below this are links; n_cores: Cores.
        n_channels: Channels.
        n_ports: DRAM ports.
    """

    share_flow: Ints
    share_port: Ints
    share_bytes: NDArray[np.float64]
    share_messages: NDArray[np.float64]
    once: NDArray[np.bool_]
    visit_share: Ints
    visit_channel: Ints
    n_links: int
    n_cores: int
    n_channels: int
    n_ports: int

    def channel_bytes(self, shares: NDArray[np.bool_]) -> NDArray[np.float64]:
        """(n_channels,) bytes that the chosen shares put on each channel."""
        weights = np.where(shares, self.share_bytes, 0.0)[self.visit_share]
        return np.bincount(self.visit_channel, weights, minlength=self.n_channels).astype(
            np.float64
        )

    def port_bytes(self, shares: NDArray[np.bool_]) -> NDArray[np.float64]:
        """(n_ports,) bytes that the chosen shares read from or write to each port."""
        chosen = shares & (self.share_port >= 0)
        return np.bincount(
            self.share_port[chosen], self.share_bytes[chosen], minlength=self.n_ports
        ).astype(np.float64)

    def port_messages(self, shares: NDArray[np.bool_]) -> NDArray[np.float64]:
        """(n_ports,) messages of the chosen shares at each port: each costs an access."""
        chosen = shares & (self.share_port >= 0)
        return np.bincount(
            self.share_port[chosen], self.share_messages[chosen], minlength=self.n_ports
        ).astype(np.float64)

    def byte_hops(self, units: int) -> float:
        """Bytes times links over a batch of so many units."""
        on_link = self.visit_channel < self.n_links
        per_share = np.bincount(self.visit_share[on_link], minlength=len(self.share_bytes))
        return float((per_share * self.share_bytes * np.where(self.once, 1, units)).sum())

    def dram_bytes(self, units: int) -> float:
        """Bytes through DRAM ports over a batch of so many units."""
        return float((self.share_bytes * np.where(self.once, 1, units))[self.share_port >= 0].sum())


def group_load(plan: GroupPlan, chip: ChipConfig, routes: Routes) -> Load:
    """The load of one group; cost grows with flows x destinations x route length, in numpy."""
    flows = plan.flows
    reach = deliveries(flows, plan.core, chip.n_cores)
    ports = np.array(chip.dram_ports, dtype=np.int64)
    spread = np.where(flows.port == INTERLEAVED, len(ports), 1)
    spread[(flows.role == Role.ACTIVATION) & (np.diff(reach.offsets) == 0)] = 0
    flow = np.repeat(np.arange(len(flows)), spread)
    port = np.where(flows.port[flow] == INTERLEAVED, positions_within(spread), flows.port[flow])
    n_bytes = flows.n_bytes[flow] / np.maximum(spread, 1)[flow]
    written = flows.role[flow] == Role.OUTPUT
    read = (port >= 0) & ~written

    rows, counts = take_rows(reach.offsets, flow)
    share = np.repeat(np.arange(len(flow)), counts)
    from_core = plan.core[np.maximum(flows.src[flow], 0)]
    from_router = np.where(read, ports[np.maximum(port, 0)], from_core)
    to_port = np.flatnonzero(written)
    path_share = np.concatenate([share, to_port])
    path_dst = np.concatenate([reach.core[rows], ports[port[to_port]]])
    links, n_links = routes.paths(from_router[path_share], path_dst)
    tree = path_share if chip.multicast else np.arange(len(path_share))
    visits = np.unique(np.repeat(tree, n_links) * chip.n_links + links)
    visit_tree, visit_link = np.divmod(visits, max(chip.n_links, 1))

    sent = ~read[path_share]
    injected = np.unique(tree[sent])
    share_of_tree = np.arange(len(flow)) if chip.multicast else path_share
    return Load(
        share_flow=flow,
        share_port=port,
        share_bytes=n_bytes,
        share_messages=np.maximum(np.ceil(n_bytes / chip.message_bytes), 1.0),
        once=flows.once[flow],
        visit_share=np.concatenate(
            [share_of_tree[visit_tree], share_of_tree[injected], share]
        ).astype(np.int64),
        visit_channel=np.concatenate(
            [
                visit_link,
                chip.n_links + from_core[share_of_tree[injected]],
                chip.n_links + chip.n_cores + reach.core[rows],
            ]
        ).astype(np.int64),
        n_links=chip.n_links,
        n_cores=chip.n_cores,
        n_channels=chip.n_channels,
        n_ports=len(ports),
    )
