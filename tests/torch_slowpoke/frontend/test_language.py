"""Models of transformers: closed forms, torch's counter, and small configurations of many kinds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_mapping.graph import OpKind
from torch_slowpoke.frontend import operator_graph
from torch_slowpoke.frontend.language import QWEN25_05B

transformers = pytest.importorskip("transformers")

SMALL_TEXT = dict(
    hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=8,
    num_key_value_heads=2, vocab_size=100, bos_token_id=1, eos_token_id=2, pad_token_id=0,
)  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": dict(architectures=["LlamaForCausalLM"], **SMALL_TEXT),
    "mistral": dict(architectures=["MistralForCausalLM"], sliding_window=32, **SMALL_TEXT),
    "mixtral": dict(architectures=["MixtralForCausalLM"], num_local_experts=4, **SMALL_TEXT),
    "gpt2": dict(architectures=["GPT2LMHeadModel"], n_embd=64, n_layer=2, n_head=4,
                 vocab_size=100, n_positions=256, bos_token_id=1, eos_token_id=2),
    "bert": dict(architectures=["BertForMaskedLM"], hidden_size=64, num_hidden_layers=2,
                 num_attention_heads=4, intermediate_size=128, vocab_size=100),
    "vit": dict(architectures=["ViTForImageClassification"], hidden_size=64,
                num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=32,
                patch_size=8),
    "whisper": dict(architectures=["WhisperModel"], d_model=64, encoder_layers=2,
                    decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                    encoder_ffn_dim=128, decoder_ffn_dim=128, vocab_size=100,
                    max_source_positions=100, num_mel_bins=80, pad_token_id=0,
                    decoder_start_token_id=1, bos_token_id=1, eos_token_id=2),
    "t5": dict(architectures=["T5ForConditionalGeneration"], d_model=64, d_kv=16, d_ff=128,
               num_layers=2, num_heads=4, vocab_size=100),
}  # fmt: skip


def written(folder: Path, kind: str) -> str:
    path = folder / f"{kind}.json"
    path.write_text(json.dumps({"model_type": kind, **CONFIGS[kind]}), encoding="utf-8")
    return f"hf:{path}"


def real_model(kind: str, attention: str = "sdpa") -> Any:
    config = transformers.AutoConfig.for_model(kind, **CONFIGS[kind])
    maker = getattr(transformers, CONFIGS[kind]["architectures"][0])
    return maker._from_config(config, attn_implementation=attention).eval()


@pytest.mark.parametrize("kind", ["llama", "gpt2", "bert", "vit", "whisper"])
def test_macs_equal_torchs_counter_with_attention_decomposed(kind: str, tmp_path: Path) -> None:
    graph = operator_graph(written(tmp_path, kind))
    model = real_model(kind)
    inputs = {
        "llama": {"input_ids": torch.zeros(1, 128, dtype=torch.long)},
        "gpt2": {"input_ids": torch.zeros(1, 128, dtype=torch.long)},
        "bert": {"input_ids": torch.zeros(1, 128, dtype=torch.long)},
        "vit": {"pixel_values": torch.zeros(1, 3, 32, 32)},
        "whisper": {"input_features": torch.zeros(1, 80, 200),
                    "decoder_input_ids": torch.zeros(1, 128, dtype=torch.long)},
    }[kind]  # fmt: skip
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        model(**inputs, **({} if kind == "vit" or kind == "bert" else {"use_cache": False}))
    assert graph.macs == counter.get_total_flops() // 2
    assert graph.n_parameters == sum(p.numel() for p in model.parameters())
    assert not [note for note in graph.notes if "operator table" in note]


@pytest.mark.parametrize("kind", ["mistral", "mixtral", "t5"])
def test_other_kinds_import(kind: str, tmp_path: Path) -> None:
    graph = operator_graph(written(tmp_path, kind))
    assert graph.name == kind
    assert graph.macs > 1e6
    assert not [note for note in graph.notes if "operator table" in note]
    if kind != "t5":
        assert sum(o.kind is OpKind.ATTENTION for o in graph) == 2


def test_experts_multiply_only_the_tokens_routed_to_them(tmp_path: Path) -> None:
    graph = operator_graph(written(tmp_path, "mixtral"))
    experts = [o for o in graph if "experts" in o.name and o.macs]
    # two of four experts a token, gate and up together and down: 2 layers x 128 tokens
    assert sum(o.macs for o in experts) == 2 * 128 * 2 * 3 * 64 * 128


def test_an_encoder_alone_imports(tmp_path: Path) -> None:
    encoder = real_model("whisper").get_encoder()
    graph = operator_graph(encoder, torch.zeros(1, 80, 200))
    assert sum(o.kind is OpKind.ATTENTION for o in graph) == 2
    assert graph[0].kind is OpKind.CONV


def qwen_macs(n_queries: int, n_keys: int) -> int:
    """Parameters in matrix products x tokens + both halves of attention."""
    hidden, inner, layers = 896, 4864, 24
    kv = 2 * 64
    layer = 2 * hidden * hidden + 2 * hidden * kv + 3 * hidden * inner
    head = 151936 * hidden
    return n_queries * (layers * layer + head) + layers * 2 * n_queries * n_keys * hidden


def test_qwen_reads_a_prompt_with_the_work_of_the_closed_form() -> None:
    graph = operator_graph("qwen2.5-0.5b:prefill=64")
    assert round(graph.n_parameters / 1e6, 2) == 494.03
    assert graph.macs == qwen_macs(64, 64)
    assert not [note for note in graph.notes if "operator table" in note]
    head = graph[len(graph) - 1]
    assert head.weights_key == "model.embed_tokens.weight"
    assert sum(o.kind is OpKind.NORM for o in graph) == 49


def test_qwen_makes_a_token_with_the_work_of_the_closed_form() -> None:
    graph = operator_graph("qwen2.5-0.5b:decode=96")
    assert round(graph.n_parameters / 1e6, 2) == 494.03
    assert graph.macs == qwen_macs(1, 97)
    keys = [e for o in graph for e in o.inputs if e.producer < 0 and e.box[2] == 96]
    assert len(keys) == 2 * 24


def test_two_layers_of_qwen_equal_torchs_counter_with_attention_decomposed(tmp_path: Path) -> None:
    settings = {**QWEN25_05B, "num_hidden_layers": 2, "vocab_size": 1000}
    path = tmp_path / "qwen.json"
    path.write_text(json.dumps(settings), encoding="utf-8")
    config = transformers.AutoConfig.for_model(settings.pop("model_type"), **settings)
    model = transformers.Qwen2ForCausalLM(config).eval()
    past = transformers.DynamicCache()
    with FlopCounterMode(display=False) as prompt, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        model(torch.zeros(1, 32, dtype=torch.long), past_key_values=past, use_cache=True)
    with FlopCounterMode(display=False) as token, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        model(torch.zeros(1, 1, dtype=torch.long), past_key_values=past, use_cache=True)
    assert operator_graph(f"hf:{path}:prefill=32").macs == prompt.get_total_flops() // 2
    assert operator_graph(f"hf:{path}:decode=32").macs == token.get_total_flops() // 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("[]", "names no model_type"),
        ('{"model_type": "nonsense"}', "cannot make a 'nonsense' configuration"),
    ],
)
def test_a_bad_configuration_is_told_in_a_sentence(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SlowpokeError, match=words) as caught:
        operator_graph(f"hf:{path}")
    assert "\n" not in str(caught.value)


def test_a_missing_configuration_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SlowpokeError, match="is not a file"):
        operator_graph(f"hf:{tmp_path / 'none.json'}")
