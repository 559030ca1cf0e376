"""A negative control: a spec that loads zeros, so that a test can see that loads matter."""

from __future__ import annotations

from typing import Any

import torch

from kvengine.integrations.vllm import KVEngineOffloadingSpec

__all__ = ["ZeroSpec"]


class ZeroSpec(KVEngineOffloadingSpec):  # type: ignore[misc]
    """Everything as in the product, but what was loaded is overwritten with zeros."""

    def get_worker(self, kv_caches: Any) -> Any:
        worker = super().get_worker(kv_caches)
        submit = worker.submit_load

        def submit_zeros(job_id: int, source: Any, target: Any, expedited: bool = False) -> bool:
            done = submit(job_id, source, target)
            worker.wait({job_id})
            blocks = torch.from_numpy(target.block_ids).long()
            for entry in kv_caches.tensors:
                entry.tensor[blocks] = 0
            return bool(done)

        worker.submit_load = submit_zeros
        return worker
