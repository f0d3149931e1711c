"""PyTorch's own tests of torch.distributed and DDP, which its wheel has, on the backend mrc.

`python tests/pytorch/own_tests.py [--write FILE] [NAME ...]`: three ranks on hosts joined in memory run each test, and
four or eight those that want as many; one that fails on a rank fails. `--write` makes the page of docs/results. Needs
PyTorch and expecttest (make torch).
"""

import argparse
import json
import os
import sys
import tempfile
import textwrap
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "unit"))

RANKS = 3
EVEN_RANKS, MANY_RANKS = 4, 8  # for tests that want them
SMALL, ODD = "small_worldsize", "odd_worldsize"
RANK = Path(__file__).with_name("own_tests_rank.py")
LIBRARY = ROOT / "hosts" / "libmrc" / "build" / "lib_mrc.so"

GPU = "needs CUDA devices"
GLOO = "needs monitored_barrier or its error message, which only gloo has"
BY_NAME = "has code for gloo, NCCL and other backends by name only"
KNOWN = {
    **dict.fromkeys(
        (
            "test_all_to_all_cuda",
            "test_all_to_all_cuda_complex",
            "test_all_to_all_full_group_cuda",
            "test_all_to_all_group_cuda",
            "test_batch_isend_irecv_mixed_backend_err",
            "test_batch_isend_irecv_op_err",
        ),
        GPU,
    ),
    **dict.fromkeys(
        ("test_barrier_timeout_full_group", "test_barrier_timeout_global", "test_barrier_timeout_group"), GLOO
    ),
    "test_SyncBatchNorm_process_group": "needs torchvision",
    "test_sparse_all_reduce_sum": "needs sparse tensors, which this backend refuses with an error",
}
"""Tests that cannot pass, and why."""


def known(test: str, why: str) -> str:
    """The reason for a test that failed as it must; else an empty string."""
    if "monitored_barrier" in test:
        return GLOO
    if test.startswith("test_accumulate_gradients") and "ddp_model" in why:
        return BY_NAME
    return KNOWN.get(test, "")


def main() -> int:
    """Run them; exit status 1 where one fails that is not known."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="tests; default: all")
    parser.add_argument("--write", type=Path, help="write the page")
    parser.add_argument("--logs", type=Path, help="folder for what the ranks say")
    options = parser.parse_args()
    os.environ["LIB_MRC"] = str(LIBRARY)
    whole = outcomes(RANKS, options.names, options.logs)
    for count, wants in ((EVEN_RANKS, lambda why: why == ODD or "out of range" in why), (MANY_RANKS, SMALL.__eq__)):
        more = [test for test, (_, why) in whole.items() if wants(why)]
        if more:
            whole.update(outcomes(count, more, options.logs))
    for test, (state, why) in whole.items():
        if state == "failed":
            print(f"FAILED {test}: {known(test, why) or why}")
    print(dict(Counter(state for state, _ in whole.values())))
    if options.write:
        options.write.write_text(page(whole))
    return 1 if any(state == "failed" and not known(test, why) for test, (state, why) in whole.items()) else 0


def outcomes(count: int, names: list[str], logs: Path | None) -> dict[str, tuple[str, str]]:
    """State and reason of each test on so many ranks; of all tests where none is named."""
    from verbs_ground import Ground  # noqa: PLC0415 - the path was set above

    found: dict[str, dict[int, tuple[str, str]]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        groups = (count + 1) // 2
        ground = Ground(
            folder, tuple(range(1, count + 1)), t0s=groups, retry_linear=2, retry_exponential=3, timeout_exponent=15
        )
        os.environ["MRCLAB_EXPLAIN"] = ""
        try:
            ranks = [
                ground.start(f"h{rank + 1}", Path(sys.executable), RANK, rank, count, folder, *names)
                for rank in range(count)
            ]
            files = [folder / f"result-{rank}" for rank in range(count)]
            shown = 0
            while any(one.poll() is None for one in ranks):
                ground.turn()
                shown = _show(files[0], shown)
            for rank, (file, one) in enumerate(zip(files, ranks, strict=True)):
                for line in file.read_text().splitlines() if file.exists() else ():
                    test, state, why = json.loads(line)
                    found.setdefault(test, {})[rank] = state, why
                said = (folder / f"log-{rank}").read_text(errors="replace")
                if logs:
                    (logs / f"rank-{rank}.log").write_text(said)
                if one.returncode:
                    print(f"rank {rank} ended with status {one.returncode}:\n{said[-3000:]}")
        finally:
            ground.close()
    return {test: _together(by_rank, count) for test, by_rank in sorted(found.items())}


def _show(file: Path, shown: int) -> int:
    lines = file.read_text().splitlines() if file.exists() else []
    for line in lines[shown:]:
        print(*json.loads(line)[:2], flush=True)
    return len(lines)


def _together(by_rank: dict[int, tuple[str, str]], count: int) -> tuple[str, str]:
    """A test's state over all ranks: failed where it is on one, skipped where it is on all."""
    for state in ("failed", "passed", "skipped"):
        for _, (one, why) in sorted(by_rank.items()):
            if one == state:
                return (state, why) if state != "passed" or len(by_rank) == count else ("failed", "a rank ended")
    return "failed", "no rank ran it"


def page(whole: dict[str, tuple[str, str]]) -> str:
    """Return the page: counts, then the tests by state and reason."""
    import torch  # noqa: PLC0415 - only the page names it

    counts = Counter(state for state, _ in whole.values())
    said = (
        f"PyTorch {torch.__version__.split('+')[0]} has {len(whole)} tests of torch.distributed and DDP in its wheel"
        " (`torch.testing._internal.distributed.distributed_test`). On three ranks, or four or eight where a test"
        f" needs them, {counts['passed']} pass, {counts['failed']} fail and {counts['skipped']} cannot run here."
        " Made by `python tests/pytorch/own_tests.py --write docs/results/torch-tests.md`."
    )
    lines = ["# PyTorch's own tests on the backend mrc", "", *_wrapped(said), ""]
    for state, title in (("failed", "Fail"), ("skipped", "Cannot run here"), ("passed", "Pass")):
        chosen = {test: why for test, (one, why) in whole.items() if one == state}
        if not chosen:
            continue
        lines += [f"## {title}", ""]
        if state == "failed":
            lines += ["| Test | Reason |", "|---|---|"]
            lines += [f"| `{test}` | {known(test, why) or why} |" for test, why in chosen.items()]
        elif state == "skipped":
            by_reason: dict[str, list[str]] = {}
            for test, why in chosen.items():
                by_reason.setdefault(_reason(why), []).append(test)
            for why, tests in sorted(by_reason.items(), key=lambda one: -len(one[1])):
                lines += _wrapped(f"* {why} ({len(tests)}): {_names(tests)}", "  ")
        else:
            lines += _wrapped(_names(list(chosen)))
        lines.append("")
    return "\n".join(lines)


def _reason(why: str) -> str:
    """Return the words for PyTorch's name of a reason to skip."""
    if why == "no_cuda" or why.startswith("multi-gpu"):
        return GPU
    return f"PyTorch skips it: {why}" if "github.com" in why else why


def _names(tests: list[str]) -> str:
    return ", ".join(f"`{test}`" for test in tests)


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    sys.exit(main())
