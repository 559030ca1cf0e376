"""Keys as vLLM has them and as the ledger has them: they differ in the group's number."""

from __future__ import annotations

from collections.abc import Collection, Sequence

__all__ = ["Numbers"]


class Numbers:
    """vLLM's group numbers in keys, which may have gaps since 0.31, and ours, which have none."""

    def __init__(self, group_ids: Sequence[int]) -> None:
        ours = {
            number.to_bytes(4, "big"): index.to_bytes(4, "big")
            for index, number in enumerate(group_ids)
        }
        self._same = all(theirs == own for theirs, own in ours.items())
        self._ours = ours
        self._theirs = {own: theirs for theirs, own in ours.items()}

    def ours(self, keys: Collection[bytes]) -> Collection[bytes]:
        """Keys as the ledger has them, in any order."""
        return keys if self._same else [self.our(key) for key in keys]

    def ours_in_order(self, keys: Collection[bytes]) -> list[bytes]:
        """Keys as the ledger has them, in the order that vLLM gives."""
        return list(keys) if self._same else [self.our(key) for key in keys]

    def our(self, key: bytes) -> bytes:
        """One key as the ledger has it."""
        return key if self._same else key[:-4] + self._ours[key[-4:]]

    def theirs(self, keys: Sequence[bytes]) -> list[bytes]:
        """Keys as vLLM has them."""
        return list(keys) if self._same else [key[:-4] + self._theirs[key[-4:]] for key in keys]
