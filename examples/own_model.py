"""Diagnose a run of a model of your own, with a link that turns slow halfway.

python examples/own_model.py
"""

import torch
from torch import nn

import torch_slowpoke


class Classifier(nn.Module):
    """Two convolutions and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4),
        )  # fmt: skip
        self.head = nn.Linear(128 * 16, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Ten class scores of each image."""
        scores: torch.Tensor = self.head(self.features(image).flatten(1))
        return scores


def main() -> None:
    """Print the diagnosis, then what the user would ask next."""
    model, image = Classifier().eval(), torch.zeros(1, 3, 64, 64)
    analysis = torch_slowpoke.analyze(
        model, image, mesh=(4, 4), faults=["link:4-5@10x"], inferences=32, seed=1
    )
    print(analysis)
    print()
    print(f"verdict: {analysis.diagnosis.verdict}")
    for suspect in analysis.diagnosis.reported:
        print(f"{suspect.place}: {suspect.slowdown:.1f}x, probability {suspect.probability:.2f}")


if __name__ == "__main__":
    main()
