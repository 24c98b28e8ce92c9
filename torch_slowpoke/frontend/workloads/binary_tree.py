"""A binary tree of matrix operations: leaves project the input, inner nodes join two results."""

from __future__ import annotations

import torch
from torch import nn


class TreeNode(nn.Module):
    """Joins two matrices: one more product on their sum."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Linear(features, features, bias=False)

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """(B, S, features) from two of the same."""
        return self.weight(left + right)  # type: ignore[no-any-return]


class BinaryTree(nn.Module):
    """Tokens (B, S, features) through 2^depth leaf products and 2^depth - 1 joining products."""

    def __init__(self, depth: int = 4, features: int = 256) -> None:
        super().__init__()
        self.leaves = nn.ModuleList(
            nn.Linear(features, features, bias=False) for _ in range(2**depth)
        )
        self.levels = nn.ModuleList(
            nn.ModuleList(TreeNode(features) for _ in range(2**level))
            for level in reversed(range(depth))
        )

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """The root's matrix, (B, S, features)."""
        values = [leaf(tokens) for leaf in self.leaves]
        for level in self.levels:
            pairs = zip(values[0::2], values[1::2], strict=True)
            values = [node(*pair) for node, pair in zip(level, pairs, strict=True)]  # type: ignore[call-overload]
        return values[0]  # type: ignore[no-any-return]
