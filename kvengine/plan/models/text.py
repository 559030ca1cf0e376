"""Reading a Hugging Face config.json: the language model's part, with class defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvengine.errors import PlanError, show

__all__ = ["MOST_LAYERS", "Text"]

_LENGTH_KEYS = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length",
    "max_target_positions", "max_sequence_length", "max_seq_length", "seq_len",
)  # fmt: skip
_KV_HEAD_KEYS = (
    "n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num",
    "num_attention_groups",
)  # fmt: skip
_UNSCALED = ("su", "longrope", "llama3", "deepseek_yarn", "deepseek_llama_scaling")


_MOST = 1 << 40
MOST_LAYERS = 10_000


def _unreadable(code: str, message: str) -> PlanError:
    hint = "the planner reads it from the model's config.json"
    return PlanError("setup", code, message, hint, path=("model", "config"))


class Text:
    """The fields of a language model's config, by name, with the defaults of its class."""

    def __init__(
        self,
        values: Mapping[str, Any],
        defaults: Mapping[str, Any],
        place: str = "model.config",
    ) -> None:
        self._values = values
        self._defaults = defaults
        self._place = place

    def get(self, *names: str, default: Any = None) -> Any:
        """The first of these fields that is given and not null, else the class default."""
        for name in names:
            if (value := self._values.get(name)) is not None:
                return value
        for name in names:
            if (value := self._defaults.get(name)) is not None:
                return value
        return default

    def integer(self, *names: str, default: int | None = None) -> int:
        """A whole number; a PlanError names the field when it is missing or something else."""
        value = self.get(*names, default=default)
        if type(value) is int and 0 <= value <= _MOST:
            return value
        at = self._at(*names)
        if value is None:
            raise _unreadable("missing", f"{at} is missing")
        says = f"{at} must be a whole number up to {_MOST}, not {show(value)}"
        raise _unreadable("type", says)

    def size(self, *names: str) -> int | None:
        """A whole number; None when it is 0, false, empty or not given."""
        return self.integer(*names) or None if self.get(*names) else None

    def number(self, name: str, *, default: float) -> float:
        """A number that need not be whole; a PlanError names the field when it is none."""
        value = self.get(name, default=default)
        if type(value) in (int, float) and 0 <= value <= _MOST:
            return float(value)
        says = f"{self._at(name)} must be a number up to {_MOST}, not {show(value)}"
        raise _unreadable("type", says)

    def word(self, name: str, *, default: str) -> str:
        """A text; a PlanError names the field when it is something else."""
        value = self.get(name, default=default)
        if isinstance(value, str):
            return value
        raise _unreadable("type", f"{self._at(name)} must be a text, not {show(value)}")

    def count(self, *names: str, default: int | None = None) -> int:
        """A number of layers; a PlanError where it is beyond reason."""
        count = self.integer(*names, default=default)
        if count > MOST_LAYERS:
            says = f"{self._at(*names)} says {count} layers, more than {MOST_LAYERS}"
            raise _unreadable("limit", says)
        return count

    def has(self, name: str) -> bool:
        """Whether the field is given and not null."""
        return self.get(name) is not None

    def sequence(self, name: str) -> Sequence[Any] | None:
        """A list, or None when the field is not given; a PlanError names one that is no list."""
        value = self.get(name)
        if value is None or (isinstance(value, Sequence) and not isinstance(value, str)):
            return value
        raise _unreadable("type", f"{self._at(name)} must be a list, not {show(value)}")

    def table(self, name: str) -> Text:
        """The fields of a nested table, none when it is not given."""
        value = self.get(name)
        return Text(value if isinstance(value, Mapping) else {}, {}, f"{self._place}.{name}")

    def _at(self, *names: str) -> str:
        """Where the one of these fields stands that is given, else the first."""
        given = (name for name in names if self.has(name))
        return f"{self._place}.{next(given, names[0])}"

    @property
    def model_type(self) -> str:
        """The name of the config class."""
        return str(self.get("model_type", default=""))

    @property
    def num_layers(self) -> int:
        """Hidden layers."""
        return self.count("num_hidden_layers", "n_layer", "num_layers", "n_layers")

    @property
    def hidden_size(self) -> int:
        """Width of the residual stream."""
        return self.integer("hidden_size", "n_embd", "d_model")

    @property
    def heads(self) -> int:
        """Query heads."""
        return self.integer("num_attention_heads", "n_head", "n_heads", "num_heads")

    @property
    def kv_heads(self) -> int:
        """Heads that keys and values have; as many as query heads unless the config says so."""
        if self.model_type == "falcon" and not self.get("new_decoder_architecture"):
            return 1 if self.get("multi_query", default=True) else self.heads
        return self.integer(*_KV_HEAD_KEYS, default=self.heads)

    @property
    def head_size(self) -> int:
        """Elements of one head."""
        given = self.integer("head_dim", "attention_head_dim", "kv_channels", default=0)
        return given or self.hidden_size // max(self.heads, 1)

    @property
    def dtype(self) -> str:
        """The model's dtype; float32 checkpoints are run in bfloat16."""
        dtype = str(self.get("dtype", "torch_dtype", default="bfloat16")).removeprefix("torch.")
        return "bfloat16" if dtype in ("float32", "float") else dtype

    @property
    def latent_width(self) -> int:
        """Elements of a latent cache: compressed keys and values, and the rotary part."""
        return self.integer("kv_lora_rank") + self.integer("qk_rope_head_dim", default=0)

    def window(self, index: int, *, default_full: bool = True) -> int | None:
        """The sliding window of a layer, by ``layer_types`` or for all layers alike."""
        if self.get("use_sliding_window") is False:
            return None
        types = self.sequence("layer_types")
        if types and types[index % len(types)] != "sliding_attention":
            return None
        return self.size("sliding_window")

    def max_length(self, *, scale_yarn: bool) -> int | None:
        """The longest context that the config allows, None when it does not say.

        ``scale_yarn``: the release multiplies the original length by YaRN's factor (up to
        0.28) instead of trusting ``max_position_embeddings``.
        """
        given = [self.integer(key) for key in _LENGTH_KEYS if self.get(key) is not None]
        if not given:
            return None
        length: float = self.integer("model_max_length", default=min(given))
        ropes = self._ropes()
        if ropes and "gemma3" not in self.model_type:
            factor: float = 1.0
            for rope in ropes:
                kind = rope.get("rope_type", "type")
                if kind in _UNSCALED or (kind == "yarn" and not scale_yarn):
                    continue
                if rope.get("factor"):
                    factor = rope.number("factor", default=factor)
                if kind == "yarn":
                    length = rope.number("original_max_position_embeddings", default=length)
            length *= factor
        return int(length)

    def default_length(self, limit: int | None) -> int:
        """The context length when the user gives none: LongRoPE stays at its original one."""
        if limit is None:
            return 2048
        if any(rope.get("rope_type", "type") == "longrope" for rope in self._ropes()):
            return self.integer("original_max_position_embeddings", default=limit)
        return limit

    def _ropes(self) -> list[Text]:
        for name in ("rope_parameters", "rope_scaling"):
            given = self.get(name)
            if isinstance(given, Mapping) and given:
                rope = self.table(name)
                nested = [rope.table(key) for key in given if isinstance(given[key], Mapping)]
                return nested or [rope]
        return []
