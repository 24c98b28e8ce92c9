"""The papers' own tables, to be printed beside what is measured."""

from __future__ import annotations

TABLE_2: dict[str, dict[str, tuple[tuple[int, int], tuple[int, int]]]] = {
    "threshold": {
        "darknet19": ((138, 271), (81, 152)),
        "googlenet": ((141, 273), (83, 152)),
        "vgg16": ((125, 275), (91, 154)),
        "resnet50": ((139, 271), (88, 155)),
        "binary_tree": ((165, 273), (70, 152)),
    },
    "microscope": {
        "darknet19": ((193, 283), (53, 156)),
        "googlenet": ((188, 280), (59, 157)),
        "vgg16": ((191, 279), (55, 156)),
        "resnet50": ((176, 273), (71, 157)),
        "binary_tree": ((217, 274), (38, 160)),
    },
    "slowpoke": {
        "darknet19": ((242, 301), (22, 174)),
        "googlenet": ((264, 299), (24, 176)),
        "vgg16": ((263, 301), (26, 178)),
        "resnet50": ((255, 308), (30, 182)),
        "binary_tree": ((265, 279), (5, 157)),
    },
}
"""SlowPoke, Table 2: method -> workload -> ((correct, all), (false positives, negatives))."""

TABLE_2_PERCENT: dict[str, tuple[tuple[float, float], ...]] = {
    "threshold": ((50.92, 53.29), (51.65, 54.61), (45.45, 59.09), (51.29, 56.77), (60.44, 46.05)),
    "microscope": ((68.20, 33.97), (67.14, 37.58), (68.46, 35.26), (64.47, 45.22), (79.20, 23.75)),
    "slowpoke": ((80.40, 12.64), (88.30, 13.64), (87.38, 14.61), (82.79, 16.48), (94.98, 3.18)),
}
"""The same rows as printed: (accuracy, FPR) in per cent, workloads in the order above."""

SLOWPOKE_WORKLOADS = ("darknet19", "googlenet", "vgg16", "resnet50", "binary_tree")
"""SlowPoke section 4.1, in the order of its Table 2."""

SLOTH_WORKLOADS = (*SLOWPOKE_WORKLOADS, "early_exit_resnet", "qwen2.5-0.5b")
"""SLOTH section IV: the last two on 8x8."""

SLOTH_PRINTED = {
    ("sloth", "binary_tree"): 86.69,
    ("sloth", "darknet19"): 74.59,
    ("sloth", "resnet50"): 74.86,
    ("sloth", "early_exit_resnet"): 81.24,
    ("sloth", "qwen2.5-0.5b"): 69.68,
}
"""Accuracies in per cent that SLOTH's section IV-B prints in its text."""
