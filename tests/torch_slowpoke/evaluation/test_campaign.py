import concurrent.futures as cf
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from slowpoke_mapping.errors import SlowpokeError
from slowpoke_tracer.baselines.silent import RandomDetector, SilentDetector
from slowpoke_tracer.baselines.threshold import ThresholdDetector
from torch_slowpoke.evaluation.campaign import Campaign, run_campaign
from torch_slowpoke.evaluation.datasets import DATASETS
from torch_slowpoke.evaluation.results import read_results
from torch_slowpoke.evaluation.store import TIMINGS, read_rows
from torch_slowpoke.evaluation.task import Row, Task, execute
from torch_slowpoke.evaluation.workloads import Workload

DETECTORS = (ThresholdDetector(), RandomDetector(), SilentDetector())


def campaign(tiny: Workload, n: int = 6) -> Campaign:
    return Campaign((tiny,), DATASETS["slowpoke-152"], DETECTORS, positives=n, negatives=n)


def rows_of(folder: Path) -> str:
    """Every column but the times taken, as text: NaN is not equal to itself."""
    return repr(read_rows(folder).drop_columns(list(TIMINGS)).to_pylist())


@pytest.fixture
def whole(tiny: Workload, tmp_path: Path) -> str:
    run_campaign(campaign(tiny), tmp_path / "whole")
    return rows_of(tmp_path / "whole")


def test_a_campaign_does_every_task_once(tiny: Workload, tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    tally = run_campaign(
        campaign(tiny), tmp_path, progress=lambda done, total: calls.append((done, total))
    )
    assert (tally.n_tasks, tally.n_before, tally.n_done) == (12, 0, 12)
    assert calls == [(done, 12) for done in range(13)]
    results = read_results(tmp_path)
    assert [str(m) for m in results.methods] == [
        f"{d.name} ({kind})" for d in DETECTORS for kind in ("sketch", "trace")
    ]
    assert all(len(results.of(method)) == 12 for method in results.methods)
    again = run_campaign(campaign(tiny), tmp_path)
    assert (again.n_before, again.n_done) == (12, 0)


def test_threads_and_processes_give_the_rows_of_one_process(
    tiny: Workload, tmp_path: Path, whole: str
) -> None:
    with cf.ThreadPoolExecutor(1) as executor:
        run_campaign(campaign(tiny), tmp_path / "threads", executor=executor)
    assert rows_of(tmp_path / "threads") == whole


@pytest.mark.slow
def test_two_processes_give_the_rows_of_one(tiny: Workload, tmp_path: Path, whole: str) -> None:
    run_campaign(campaign(tiny), tmp_path / "two", workers=2)
    assert rows_of(tmp_path / "two") == whole


def test_an_interrupted_campaign_resumes_where_it_stopped(
    tiny: Workload, tmp_path: Path, whole: str
) -> None:
    for stop in (1, 4, 9):

        def progress(done: int, total: int, stop: int = stop) -> None:
            if done == stop:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_campaign(campaign(tiny), tmp_path / "stopped", progress=progress)
    tally = run_campaign(campaign(tiny), tmp_path / "stopped")
    assert (tally.n_before, tally.n_done) == (9, 3)
    assert rows_of(tmp_path / "stopped") == whole


class DyingExecutor(cf.Executor):
    """Runs a few tasks, then breaks, as a pool whose process was killed does."""

    def __init__(self, n: int) -> None:
        self._left = n

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> cf.Future[Any]:
        future: cf.Future[Any] = cf.Future()
        self._left -= 1
        if self._left < 0:
            future.set_exception(cf.BrokenExecutor("killed"))
        else:
            future.set_result(fn(*args, **kwargs))
        return future


def test_what_was_done_before_an_executor_broke_is_kept(
    tiny: Workload, tmp_path: Path, whole: str
) -> None:
    with pytest.raises(cf.BrokenExecutor):
        run_campaign(campaign(tiny), tmp_path / "broken", executor=DyingExecutor(8))
    tally = run_campaign(campaign(tiny), tmp_path / "broken")
    assert 0 < tally.n_before < 12
    assert rows_of(tmp_path / "broken") == whole


def test_another_campaign_is_not_mixed_in(tiny: Workload, tmp_path: Path) -> None:
    run_campaign(campaign(tiny, 1), tmp_path)
    with pytest.raises(SlowpokeError, match="holds a campaign with positives = 1, not 2"):
        run_campaign(campaign(tiny, 2), tmp_path)


def test_campaigns_of_nothing_are_refused(tiny: Workload, tmp_path: Path) -> None:
    with pytest.raises(SlowpokeError, match="at least one workload"):
        run_campaign(campaign(tiny, 0), tmp_path)
    with pytest.raises(SlowpokeError, match="names a workload twice"):
        Campaign((tiny, tiny), DATASETS["thermal"], DETECTORS).tasks()
    with pytest.raises(SlowpokeError, match="at least one process"):
        run_campaign(campaign(tiny), tmp_path, workers=0)


SCRIPT = """
import json, pathlib, sys, time
sys.path[:0] = json.loads(sys.argv[2])
from test_campaign import campaign
from conftest import chain
from torch_slowpoke.evaluation import campaign as engine
from torch_slowpoke.evaluation.workloads import Workload
engine.FLUSH_SECONDS = 0.02
real = engine.execute
engine.execute = lambda task: (time.sleep(0.05), real(task))[1]  # there is time to be killed in
engine.run_campaign(campaign(Workload(chain(), "mesh:2x2"), 30), pathlib.Path(sys.argv[1]))
"""


@pytest.mark.slow
def test_a_campaign_killed_at_twenty_random_moments_gives_the_same_rows(
    tiny: Workload, tmp_path: Path
) -> None:
    run_campaign(campaign(tiny, 30), tmp_path / "whole")
    folder, rng, killed = tmp_path / "killed", random.Random(7), 0
    paths = json.dumps([str(Path(__file__).parent), *sys.path])
    for _ in range(200):
        process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(folder), paths])
        if killed < 20:
            # start-up takes seconds: wait until this session's first sign of work, then a moment
            lock, began = folder / "lock", time.time()
            while process.poll() is None and not (
                lock.exists() and lock.stat().st_mtime > began - 0.5
            ):
                time.sleep(0.005)
            time.sleep(rng.uniform(0, 0.12))
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                killed += 1
        assert process.wait(120) in (0, -signal.SIGKILL)
        if process.returncode == 0:
            break
    assert killed >= 10 and process.returncode == 0  # 20, but for a machine that stalls
    assert rows_of(folder) == rows_of(tmp_path / "whole")


def _dies_once(task: Task, marker: str) -> list[Row]:
    """A task during which the worker is killed, the first time it is tried."""
    if not os.path.exists(marker):
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return execute(task)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster_that_loses_a_worker_gives_the_same_rows(
    tiny: Workload, tmp_path: Path, whole: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed")
    marker = str(tmp_path / "killed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        executor = client.get_executor(pure=False)
        real = executor.submit

        def submit(fn: Any, *args: Any, **kwargs: Any) -> Any:
            if fn is execute and args[0].case.index == 2:
                return real(_dies_once, args[0], marker)
            return real(fn, *args, **kwargs)

        monkeypatch.setattr(executor, "submit", submit)
        run_campaign(campaign(tiny), tmp_path / "dask", executor=executor)
    assert os.path.exists(marker)
    assert rows_of(tmp_path / "dask") == whole


WORKERS = """
import os, sys, time
from torch_slowpoke.evaluation import campaign
if __name__ == "__main__":
    with campaign._pool(2) as pool:
        found = {pool.submit(os.getpid).result() for _ in range(20)}
        print(*found, flush=True)
        list(pool.map(time.sleep, [600, 600]))
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks Linux who is alive")
def test_workers_do_not_outlive_a_campaign_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "workers.py"
    script.write_text(WORKERS)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=environment
    ) as parent:
        assert parent.stdout is not None
        workers = [int(pid) for pid in parent.stdout.readline().split()]
        assert workers
        parent.send_signal(signal.SIGKILL)
        parent.wait(30)
    until = time.monotonic() + 30
    while time.monotonic() < until and any(map(_alive, workers)):
        time.sleep(0.1)
    assert not any(map(_alive, workers))


def _alive(pid: int) -> bool:
    """Whether a process runs; one that waits for its parent to take note of its end does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
