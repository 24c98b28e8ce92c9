"""Every torchvision model against its published work and parameters."""

from __future__ import annotations

import pytest
import torch
from torchvision.models import get_model, get_model_weights

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.frontend import model_names, operator_graph
from torch_slowpoke.frontend.models import LANGUAGE, OWN, UNEXPORTABLE, torchvision_names

A_DOZEN = (
    "alexnet", "vgg16", "vgg19", "googlenet", "resnet50", "mobilenet_v3_small",
    "regnet_y_400mf", "shufflenet_v2_x0_5", "vit_b_32", "swin_t", "r3d_18",
    "lraspp_mobilenet_v3_large",
)  # fmt: skip
PUBLISHED = [n for n in torchvision_names() if not n.startswith("raft")]
"""Optical flow is published at another size than its transforms make."""


def check_published(name: str) -> None:
    meta = next(iter(get_model_weights(name))).meta
    graph = operator_graph(name)
    assert round(graph.macs / 1e9, 3) == meta["_ops"]
    assert graph.n_parameters == meta["num_params"]
    assert not [note for note in graph.notes if "operator table" in note]


@pytest.mark.parametrize("name", A_DOZEN)
def test_work_and_parameters_are_the_published_ones(name: str) -> None:
    check_published(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in PUBLISHED if n not in A_DOZEN])
def test_work_and_parameters_of_all_others_are_the_published_ones(name: str) -> None:
    check_published(name)


def test_names_are_listed_without_building_anything() -> None:
    names = model_names()
    assert len(names) == len(set(names))
    assert {*OWN, *LANGUAGE, "resnet50", "vit_h_14", "swin3d_b", "raft_small"} <= set(names)
    assert not [n for n in names if any(part in n for part in UNEXPORTABLE)]


def test_a_named_model_takes_other_inputs() -> None:
    small = operator_graph("resnet18", torch.zeros(2, 3, 64, 64))
    assert small[0].box == (2, 64, 32, 32)
    own = operator_graph(get_model("resnet18", weights=None), torch.zeros(2, 3, 64, 64))
    assert small.fingerprint == own.fingerprint


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("resnet5", r"unknown model 'resnet5': did you mean .*'resnet50'"),
        ("ResNet50", "did you mean 'resnet50'"),
        ("qzxw", "see `slowpoke models`"),
        ("fasterrcnn_resnet50_fpn", "detection model"),
        ("ssd300_vgg16", "detection model"),
        ("quantized_resnet18", "analyse 'resnet18'"),
        ("qwen2.5-0.5b:decode=none", "positive integer"),
        ("qwen2.5-0.5b:encode=3", "prefill=S or decode=S"),
    ],
)
def test_names_that_will_not_do_are_told_in_a_sentence(name: str, words: str) -> None:
    with pytest.raises(SlowpokeError, match=words) as caught:
        operator_graph(name)
    assert "\n" not in str(caught.value)
