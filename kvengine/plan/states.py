"""Recurrent states: what a layer without a growing cache keeps per sequence."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from kvengine.plan.dtypes import element_bytes

__all__ = [
    "Delta",
    "Fixed",
    "LinearState",
    "Mamba1",
    "Mamba2",
    "Recurrence",
    "ShortConv",
    "StateKind",
]

StateKind = Literal["mamba1", "mamba2", "gdn", "kda", "linear", "short_conv"]


@frozen(kw_only=True)
class Recurrence:
    """A convolution state and a recurrent state, split over tensor-parallel ranks.

    A dtype ``auto`` is the engine's: the convolution takes the mamba cache dtype, or the
    model's; the recurrent state takes that of the convolution.
    """

    conv_dtype: str = "auto"
    state_dtype: str = "auto"

    def divides_over(self, tensor: int) -> bool:
        """Whether so many tensor-parallel ranks can share the state."""
        return all(count % tensor == 0 for count in self._divided())

    def bytes_in(self, model_dtype: str, cache_dtype: str, tensor: int, drafts: int) -> int:
        """Bytes of one state on one rank; ``drafts`` are the tokens drafted per step."""
        default = model_dtype if cache_dtype == "auto" else cache_dtype
        conv = default if self.conv_dtype == "auto" else self.conv_dtype
        state = conv if self.state_dtype == "auto" else self.state_dtype
        return self._conv(tensor, drafts) * element_bytes(conv) + self._state(
            tensor
        ) * element_bytes(state)

    def _divided(self) -> tuple[int, ...]:
        """What the ranks divide among them."""
        return ()

    def _conv(self, tensor: int, drafts: int) -> int:
        """Elements of the convolution state, a row more for every drafted token."""
        return 0

    def _state(self, tensor: int) -> int:
        """Elements of the recurrent state."""
        return 0


@frozen(kw_only=True)
class Mamba1(Recurrence):
    """Mamba: ``(kernel - 1, width)`` and ``(width, state_size)``; drafts add nothing."""

    width: int
    state_size: int
    kernel: int

    def _divided(self) -> tuple[int, ...]:
        return (self.width,)

    def _conv(self, tensor: int, drafts: int) -> int:
        return self.width // tensor * (self.kernel - 1)

    def _state(self, tensor: int) -> int:
        return self.width // tensor * self.state_size


@frozen(kw_only=True)
class Mamba2(Recurrence):
    """Mamba-2: a single group that does not divide over the ranks is repeated on each."""

    width: int
    groups: int
    heads: int
    head_size: int
    state_size: int
    kernel: int

    def _divided(self) -> tuple[int, ...]:
        return (self.heads,) if self.groups == 1 else (self.heads, self.groups)

    def _conv(self, tensor: int, drafts: int) -> int:
        groups = self.groups if self.groups % tensor == 0 else tensor
        channels = self.width + 2 * groups * self.state_size
        return channels // tensor * (self.kernel - 1 + drafts)

    def _state(self, tensor: int) -> int:
        return self.heads // tensor * self.head_size * self.state_size


@frozen(kw_only=True)
class Delta(Recurrence):
    """Gated delta networks (GDN, KDA): a matrix per value head."""

    key_heads: int
    value_heads: int
    key_size: int
    value_size: int
    kernel: int

    def _divided(self) -> tuple[int, ...]:
        return (self.key_heads, self.value_heads)

    def _conv(self, tensor: int, drafts: int) -> int:
        channels = 2 * self.key_heads * self.key_size + self.value_heads * self.value_size
        return channels // tensor * (self.kernel - 1 + drafts)

    def _state(self, tensor: int) -> int:
        return self.value_heads // tensor * self.value_size * self.key_size


@frozen(kw_only=True)
class LinearState(Recurrence):
    """Lightning attention: one square matrix per head and no convolution."""

    heads: int
    head_size: int

    def _divided(self) -> tuple[int, ...]:
        return (self.heads,)

    def _state(self, tensor: int) -> int:
        return self.heads // tensor * self.head_size**2


@frozen(kw_only=True)
class ShortConv(Recurrence):
    """A short convolution alone (LFM2)."""

    width: int
    kernel: int

    def _divided(self) -> tuple[int, ...]:
        return (self.width,)

    def _conv(self, tensor: int, drafts: int) -> int:
        return self.width // tensor * (self.kernel - 1)


@frozen(kw_only=True)
class Fixed(Recurrence):
    """A state of so many bytes on every rank, described by hand."""

    num_bytes: int

    def bytes_in(self, model_dtype: str, cache_dtype: str, tensor: int, drafts: int) -> int:
        """The bytes as described, whatever the dtypes and the parallelism."""
        return self.num_bytes
