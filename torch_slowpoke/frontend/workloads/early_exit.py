"""ResNet-50 with early exits (BranchyNet: Teerapittayanon et al., ICPR 2016).

A share of the batch leaves at each exit. The shares are fixed, so that the work is static: after an
exit only the rest of the samples goes on.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from slowpoke_mapping.errors import SlowpokeError


class ExitBranch(nn.Module):
    """A classifier on features of an inner stage: 3 x 3 convolution, pool, linear."""

    def __init__(self, channels: int, n_classes: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.act = nn.ReLU(inplace=True)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, n_classes)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Class scores (B, n_classes)."""
        out = self.pool(self.act(self.norm(self.conv(features))))
        return self.fc(torch.flatten(out, 1))  # type: ignore[no-any-return]


class EarlyExitResNet(nn.Module):
    """ResNet-50 with an exit after each of its first three stages.

    Args:
        exit_shares: Share of the batch that leaves at each exit, together less than 1.
        n_classes: Number of classes.
    """

    def __init__(
        self, exit_shares: Sequence[float] = (0.25, 0.25, 0.25), n_classes: int = 1000
    ) -> None:
        super().__init__()
        if any(share < 0 for share in exit_shares) or not sum(exit_shares) < 1:
            raise SlowpokeError(
                f"exit_shares {tuple(exit_shares)}: each is at least 0 and together they are less "
                "than 1, so that some of the batch reaches the end"
            )
        from torchvision.models import resnet50

        trunk = resnet50(weights=None, num_classes=n_classes)
        self.stem = nn.Sequential(trunk.conv1, trunk.bn1, trunk.relu, trunk.maxpool)
        self.stages = nn.ModuleList([trunk.layer1, trunk.layer2, trunk.layer3, trunk.layer4])
        self.exits = nn.ModuleList(
            ExitBranch(channels, n_classes) for channels in (256, 512, 1024)[: len(exit_shares)]
        )
        self.pool, self.fc = trunk.avgpool, trunk.fc
        self.exit_shares = tuple(exit_shares)

    def forward(self, images: torch.Tensor) -> list[torch.Tensor]:
        """Class scores of each exit and of the end, together as many rows as there are images."""
        results = []
        batch = images.shape[0]
        features = self.stem(images)
        for i, stage in enumerate(self.stages):
            features = stage(features)
            if i < len(self.exits):
                scores = self.exits[i](features)
                leaving = int(self.exit_shares[i] * batch)
                results.append(scores[:leaving])
                features = features[leaving:]
        results.append(self.fc(torch.flatten(self.pool(features), 1)))
        return results
