"""DarkNet-19, the classifier of YOLO9000 (Redmon and Farhadi, CVPR 2017, Table 6)."""

from __future__ import annotations

import torch
from torch import nn

# (channels, kernel); None is a 2 x 2 maximum pool of stride 2. The 19th is the classifier.
LAYERS: tuple[tuple[int, int] | None, ...] = (
    (32, 3), None, (64, 3), None, (128, 3), (64, 1), (128, 3), None,
    (256, 3), (128, 1), (256, 3), None,
    (512, 3), (256, 1), (512, 3), (256, 1), (512, 3), None,
    (1024, 3), (512, 1), (1024, 3), (512, 1), (1024, 3),
)  # fmt: skip


class ConvUnit(nn.Sequential):
    """Convolution without bias, batch-norm, leaky ReLU of slope 0.1."""

    def __init__(self, inputs: int, outputs: int, kernel: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(outputs)
        self.act = nn.LeakyReLU(0.1, inplace=True)


class DarkNet19(nn.Module):
    """Images (B, 3, 224, 224) to class scores (B, n_classes)."""

    def __init__(self, n_classes: int = 1000) -> None:
        super().__init__()
        units: list[nn.Module] = []
        inputs = 3
        for layer in LAYERS:
            if layer is None:
                units.append(nn.MaxPool2d(2, 2))
                continue
            units.append(ConvUnit(inputs, *layer))
            inputs = layer[0]
        self.features = nn.Sequential(*units)
        self.classifier = nn.Conv2d(inputs, n_classes, 1)
        self.pool = nn.AdaptiveAvgPool2d(1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Class scores."""
        return torch.flatten(self.pool(self.classifier(self.features(images))), 1)
