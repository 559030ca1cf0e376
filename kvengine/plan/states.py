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

    ``drafts`` are the tokens drafted per step, for each of which the convolution keeps a row more.
    """

    conv_dtype: str
    state_dtype: str

    def divides_over(self, tensor: int) -> bool:
        """Whether so many tensor-parallel ranks can share the state."""
        return True

    def conv_elements(self, tensor: int, drafts: int) -> int:
        """Elements of the convolution state on one rank."""
        raise NotImplementedError

    def state_elements(self, tensor: int) -> int:
        """Elements of the recurrent state on one rank."""
        raise NotImplementedError

    def bytes_in(self, model_dtype: str, cache_dtype: str, tensor: int, drafts: int) -> int:
        """Bytes of one state on one rank; ``auto`` is the cache dtype, and that the model's."""
        default = model_dtype if cache_dtype == "auto" else cache_dtype
        conv = default if self.conv_dtype == "auto" else self.conv_dtype
        state = conv if self.state_dtype == "auto" else self.state_dtype
        return self.conv_elements(tensor, drafts) * element_bytes(conv) + self.state_elements(
            tensor
        ) * element_bytes(state)


@frozen(kw_only=True)
class Mamba1(Recurrence):
    """Mamba: ``(kernel - 1, width)`` and ``(width, state_size)``; drafts add nothing."""

    width: int
    state_size: int
    kernel: int

    def divides_over(self, tensor: int) -> bool:
        return self.width % tensor == 0

    def conv_elements(self, tensor: int, drafts: int) -> int:
        return self.width // tensor * (self.kernel - 1)

    def state_elements(self, tensor: int) -> int:
        return self.width // tensor * self.state_size


@frozen(kw_only=True)
class Mamba2(Recurrence):
    """Mamba-2: groups that do not divide over the ranks are repeated on each."""

    width: int
    groups: int
    heads: int
    head_size: int
    state_size: int
    kernel: int

    def divides_over(self, tensor: int) -> bool:
        return self.heads % tensor == 0 and (self.groups % tensor == 0 or self.groups == 1)

    def conv_elements(self, tensor: int, drafts: int) -> int:
        groups = self.groups if self.groups % tensor == 0 else tensor
        channels = self.width + 2 * groups * self.state_size
        return channels // tensor * (self.kernel - 1 + drafts)

    def state_elements(self, tensor: int) -> int:
        return self.heads // tensor * self.head_size * self.state_size


@frozen(kw_only=True)
class Delta(Recurrence):
    """Gated delta networks (GDN, KDA): a matrix per value head."""

    key_heads: int
    value_heads: int
    key_size: int
    value_size: int
    kernel: int

    def divides_over(self, tensor: int) -> bool:
        return self.value_heads % tensor == 0 and self.key_heads % tensor == 0

    def conv_elements(self, tensor: int, drafts: int) -> int:
        channels = 2 * self.key_heads * self.key_size + self.value_heads * self.value_size
        return channels // tensor * (self.kernel - 1 + drafts)

    def state_elements(self, tensor: int) -> int:
        return self.value_heads // tensor * self.value_size * self.key_size


@frozen(kw_only=True)
class LinearState(Recurrence):
    """Lightning attention: one square matrix per head and no convolution."""

    heads: int
    head_size: int

    def conv_elements(self, tensor: int, drafts: int) -> int:
        return 0

    def state_elements(self, tensor: int) -> int:
        return self.heads // tensor * self.head_size**2


@frozen(kw_only=True)
class ShortConv(Recurrence):
    """A short convolution alone (LFM2)."""

    width: int
    kernel: int

    def conv_elements(self, tensor: int, drafts: int) -> int:
        return self.width // tensor * (self.kernel - 1 + drafts)

    def state_elements(self, tensor: int) -> int:
        return 0


@frozen(kw_only=True)
class Fixed(Recurrence):
    """A state of so many bytes on every rank, described by hand."""

    num_bytes: int
    conv_dtype: str = "auto"
    state_dtype: str = "auto"

    def bytes_in(self, model_dtype: str, cache_dtype: str, tensor: int, drafts: int) -> int:
        return self.num_bytes
