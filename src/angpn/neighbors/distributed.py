"""The process group of a distributed fit: joining it, and tasks done by its processes side by side."""

import atexit
import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from importlib import import_module
from typing import Any

import torch
import torch.distributed as dist

from angpn.neighbors.collectives import broadcast, clear_errors

TIMEOUT = timedelta(minutes=30)  # that a process waits for the others, which may still be searching

ParallelMap = Callable[[Sequence[Callable[[], Any]]], list[Any]]  # tasks, to what they return


def join_process_group(distributed: bool | None) -> bool:
    """Join the processes that torchrun has started, if that is asked for, and tell whether there are several.

    Args:
        distributed: True joins the process group of torchrun, or uses one that is initialised. False leaves
            torch.distributed alone. None is for a user who said neither.

    Returns:
        Whether the rows of a fit are to be distributed among several processes.

    Raises:
        ValueError: if ``distributed`` is None where there are several processes, or True where there is no job.
    """
    initialized = dist.is_available() and dist.is_initialized()
    size = dist.get_world_size() if initialized else int(os.environ.get("WORLD_SIZE", "1"))
    in_job = initialized or ("MASTER_ADDR" in os.environ and "WORLD_SIZE" in os.environ)
    if distributed is None and in_job and size > 1:
        raise ValueError(
            f"distributed must be said in a job of several processes, got {size} processes and distributed=None; pass "
            "distributed=True to share the rows out, or distributed=False for independent fits"
        )
    if not distributed:
        return False
    if not in_job or not dist.is_available():
        raise ValueError(
            "distributed=True needs several processes, got neither torchrun nor an initialised process group of "
            "torch.distributed; start the script with torchrun, or pass distributed=False"
        )
    if size > 1 and not initialized:
        # Its functions have the group as a default, and an optimizer imports it: later, and they would keep this group
        # alive to the end of the interpreter, which its threads then abort.
        import_module("torch.distributed.nn")
        with clear_errors():
            dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=TIMEOUT)
        atexit.register(_leave)
    return size > 1


def _leave() -> None:
    """End the threads of the group before the interpreter does, which else may abort."""
    if dist.is_initialized():
        dist.destroy_process_group()


def is_main_process() -> bool:
    """Tell whether this process has rank 0, or there is no process group."""
    return not (dist.is_available() and dist.is_initialized()) or dist.get_rank() == 0


def n_processes() -> int:
    """Return the size of the process group, 1 where there is none."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def broadcast_from_main(number: int) -> int:
    """Return the number that the process of rank 0 passes."""
    return int(broadcast(torch.tensor(number)))


def serial_map(tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run the tasks in this process and return their results."""
    return [task() for task in tasks]


def distributed_map(tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run each task in one of the processes and return the results of all in every process."""
    size = dist.get_world_size()
    everyone: list[Any] = [None] * size
    mine = [task() for task in tasks[dist.get_rank() :: size]]
    with clear_errors():
        dist.all_gather_object(everyone, mine)
    return [everyone[place % size][place // size] for place in range(len(tasks))]
