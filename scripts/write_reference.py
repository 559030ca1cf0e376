#!/usr/bin/env python3
"""Write docs/reference anew from the declarations."""

from __future__ import annotations

from pathlib import Path

from kvengine.config.reference import PAGES, page

FOLDER = Path(__file__).parent.parent / "docs" / "reference"


def main() -> None:
    """Every page; stale ones are rewritten, others left alone."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in PAGES:
        file, text = FOLDER / f"{name}.md", page(name)
        if not file.is_file() or file.read_text("utf-8") != text:
            file.write_text(text, "utf-8")
            print(f"{file.relative_to(FOLDER.parent.parent)}: written")


if __name__ == "__main__":
    main()
