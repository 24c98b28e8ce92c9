"""Models of transformers from their configurations: Qwen2.5-0.5B by name, any other by JSON file.

`qwen2.5-0.5b:prefill=128` reads S tokens at once; `qwen2.5-0.5b:decode=128` makes one token with a
key-value cache of S tokens. `hf:config.json` takes any configuration that transformers knows, with
the same endings. Nothing is downloaded.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from slowpoke_mapping.errors import SlowpokeError
from torch_slowpoke.frontend.models import NamedModel

DEFAULT_TOKENS = 128

QWEN25_05B: dict[str, Any] = {
    "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "vocab_size": 151936,
    "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
    "num_attention_heads": 14, "num_key_value_heads": 2, "tie_word_embeddings": True,
    "max_position_embeddings": 32768, "rope_theta": 1000000.0, "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
}  # fmt: skip
"""The published configuration of Qwen2.5-0.5B (Qwen2.5 technical report, 2024)."""


def parsed(name: str) -> tuple[str, str, int]:
    """Base name, phase and number of tokens of `base[:prefill=S|:decode=S]`."""
    base, colon, ending = name.rpartition(":")
    phase, equals, count = ending.partition("=")
    if not colon or phase not in ("prefill", "decode") or base == "hf":
        if colon and base != "hf" and not name.startswith("hf:"):
            raise SlowpokeError(
                f"{name!r}: after the colon comes prefill=S or decode=S with S tokens"
            )
        return name, "prefill", DEFAULT_TOKENS
    if equals and not (count.isdigit() and int(count) > 0):
        raise SlowpokeError(f"{name!r}: the number of tokens after {phase}= is a positive integer")
    return base, phase, int(count) if equals else DEFAULT_TOKENS


def language_model(name: str) -> NamedModel:
    """The model that `name` stands for.

    Raises:
        SlowpokeError: transformers is missing, or the configuration cannot be used.
    """
    transformers = _transformers(name)
    base, phase, n_tokens = parsed(name)
    if base.startswith("hf:"):
        settings = _settings(Path(base.removeprefix("hf:")))
    else:
        settings = QWEN25_05B
    config = _config(transformers, settings, base)
    if phase == "decode":
        return NamedModel(
            lambda: _decoding(_model(transformers, config)),
            lambda: _decode_inputs(config, n_tokens, base),
        )
    return NamedModel(
        lambda: _model(transformers, config), tuple, lambda: _prefill_inputs(config, n_tokens)
    )


def _transformers(name: str) -> Any:
    try:
        import transformers
    except ImportError as error:
        raise SlowpokeError(
            f"{name!r} needs transformers: pip install 'torch-slowpoke[llm]'"
        ) from error
    return transformers


def _settings(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise SlowpokeError(f"{path} is not a file; hf: wants the path of a config.json")
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise SlowpokeError(f"{path} is not JSON ({error}); hf: wants a config.json") from error
    if not isinstance(settings, dict) or "model_type" not in settings:
        raise SlowpokeError(f"{path} names no model_type; hf: wants a transformers config.json")
    return settings


def _config(transformers: Any, settings: dict[str, Any], name: str) -> Any:
    values = {k: v for k, v in settings.items() if k not in ("quantization_config", "torch_dtype")}
    kind = values.pop("model_type")
    try:
        config = transformers.AutoConfig.for_model(kind, **values)
    except Exception as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SlowpokeError(
            f"{name}: transformers cannot make a {kind!r} configuration of it ({first[:160]}); "
            "compare it with the model's published config.json"
        ) from error
    return config


def _model(transformers: Any, config: Any) -> nn.Module:
    wanted = (getattr(config, "architectures", None) or [""])[0]
    kind = getattr(transformers, wanted, None)
    options = {"attn_implementation": "sdpa"}
    maker: Callable[..., Any] = (
        kind._from_config if kind is not None else transformers.AutoModel.from_config
    )
    try:
        model = maker(config, **options)
    except ValueError as error:
        if "attn_implementation" not in str(error) and "attention implementation" not in str(error):
            raise
        model = maker(config, attn_implementation="eager")
    for module in model.modules():  # an encoder and a decoder have configurations of their own
        if getattr(getattr(module, "config", None), "use_cache", None):
            module.config.use_cache = False
    return model  # type: ignore[no-any-return]


def _prefill_inputs(config: Any, n_tokens: int) -> dict[str, Any]:
    """Example inputs by what kind of model it is: images, sound, tokens, or text to text."""
    if hasattr(config, "vision_config") and hasattr(config, "text_config"):
        return {
            **_prefill_inputs(config.text_config, min(n_tokens, _longest(config.text_config))),
            **_prefill_inputs(config.vision_config, n_tokens),
        }
    if hasattr(config, "num_mel_bins") and hasattr(config, "max_source_positions"):
        features = torch.zeros(1, config.num_mel_bins, 2 * config.max_source_positions)
        inputs: dict[str, Any] = {"input_features": features}
        if getattr(config, "is_encoder_decoder", False) and "Encoder" not in _architecture(config):
            inputs["decoder_input_ids"] = torch.zeros(1, n_tokens, dtype=torch.long)
        return inputs
    if hasattr(config, "image_size") and hasattr(config, "num_channels"):
        size = config.image_size
        height, width = (size, size) if isinstance(size, int) else size
        return {"pixel_values": torch.zeros(1, config.num_channels, height, width)}
    inputs = {"input_ids": torch.zeros(1, n_tokens, dtype=torch.long)}
    if getattr(config, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = torch.zeros(1, n_tokens, dtype=torch.long)
    return inputs


def _longest(config: Any) -> int:
    return int(getattr(config, "max_position_embeddings", None) or DEFAULT_TOKENS)


def _architecture(config: Any) -> str:
    return str((getattr(config, "architectures", None) or [""])[0])


def _decoding(model: nn.Module) -> nn.Module:
    """The model with a forward of plain tensors: one token and the cache, layer by layer."""

    def forward(self: Any, input_ids: torch.Tensor, *cache: torch.Tensor) -> torch.Tensor:
        from transformers import DynamicCache

        past = DynamicCache()
        for layer in range(len(cache) // 2):
            past.update(cache[2 * layer], cache[2 * layer + 1], layer)
        length = cache[0].shape[-2]
        position = torch.full((1, 1), length, dtype=torch.long)
        output = type(self).forward(
            self, input_ids=input_ids, past_key_values=past, position_ids=position, use_cache=True
        )
        return output.logits if hasattr(output, "logits") else output[0]  # type: ignore[no-any-return]

    model.forward = types.MethodType(forward, model)
    return model


def _decode_inputs(config: Any, n_tokens: int, name: str) -> tuple[Any, ...]:
    layers = getattr(config, "num_hidden_layers", None)
    heads = getattr(config, "num_attention_heads", None)
    if layers is None or heads is None or getattr(config, "is_encoder_decoder", False):
        raise SlowpokeError(f"{name} does not decode token by token; use prefill=S")
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    cache = [torch.zeros(1, kv_heads, n_tokens, width) for _ in range(2 * layers)]
    return (torch.zeros(1, 1, dtype=torch.long), *cache)
