"""Jobs of two processes of which one is killed at a random moment: the job ends, and leaves nothing running."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import sharded_job
from fuzz.checks import Fault
from fuzz.mutations import pick

EVERY = 100  # each takes about ten seconds
SECONDS = 120.0
SECONDS_AFTER_KILL = 60.0


def make(seed, folder):
    """Draw the job, who is killed and when."""
    generator = np.random.default_rng(seed)
    return pick(generator, ["command", "checkpointed"]), folder, int(generator.integers(2)), 2 + 10 * generator.random()


def run(case):
    """Start the job, kill a process, wait for the end."""
    name, folder, rank, moment = case
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    with (folder / "log.txt").open("wb") as log:
        job = subprocess.Popen([*command, sharded_job.__file__, name, folder], env=environment, stdout=log, stderr=log)
        try:
            time.sleep(moment)
            ranks = _children(job.pid)
            killed = job.poll() is None and len(ranks) == 2
            if killed:
                os.kill(ranks[rank], signal.SIGKILL)
            job.wait(SECONDS_AFTER_KILL)
        except subprocess.TimeoutExpired:
            raise Fault("hang", f"a job must end within {SECONDS_AFTER_KILL} s after a process was killed") from None
        finally:
            for process in (*_children(job.pid), job.pid):
                if _is_alive(process):
                    os.kill(process, signal.SIGKILL)
            job.wait()
    left = [process for process in ranks if _is_alive(process)]
    if left:
        raise Fault("leftovers", f"all processes of a job must end, got {left} still running")
    if killed and job.returncode == 0:
        raise Fault("result", "a job of which a process was killed must end with an error, got exit code 0")
    if not killed and job.returncode != 0 and len(ranks) == 2:
        raise Fault("result", f"a whole job must end well, got exit code {job.returncode}")
    hidden = [path.name for path in folder.rglob(".*")]
    if hidden and job.returncode == 0:
        raise Fault("leftovers", f"temporary files must be gone, got {hidden}")
    return job.returncode == 0


def _children(process):
    path = Path(f"/proc/{process}/task/{process}/children")
    return [int(child) for child in path.read_text().split()] if path.exists() else []


def _is_alive(process):
    status = Path(f"/proc/{process}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"
