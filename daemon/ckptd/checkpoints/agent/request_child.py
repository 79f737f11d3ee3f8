"""Carries out one request in a child of the agent: becomes the owner of the files, confines itself, and answers."""

import contextlib
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

from ckptd.checkpoints.agent import answer_pieces, child_states, confinement, limited_child, orphans, requests
from ckptd.checkpoints.agent.garbage_collector import collector_paused
from ckptd.checkpoints.agent.identities import DeniedUserError, read_account
from ckptd.checkpoints.agent.lease_memory import LeaseOverError
from ckptd.checkpoints.agent.request_policy import RequestPolicy
from ckptd.checkpoints.agent.user_switch import become
from ckptd.checkpoints.scanning import user_paths
from ckptd.checkpoints.scanning.shared_parser import SharedParser
from ckptd.errors import CkptdError

# takes JSON types, a parser as "parser", and as "memory" what earlier items of the request left; returns JSON types
Operation = Callable[[dict[str, Any]], dict[str, Any]]

MAX_OPEN_FILES = 256
# beyond what the agent maps: the largest manifest that a move writes takes 620 MiB, a forged one could take 2 GiB
TRASH_MEMORY_BYTES = 1 << 30
READS_MANIFESTS = frozenset(
    {"restore", "empty", "recover", "list_trash", "list_known", "list_unrecorded", "look_up"}
)  # the operations of the trash but for the move, which may write a manifest of many more strings


def run(
    request: dict[str, Any],
    pipe: int,
    policy: RequestPolicy,
    operations: Mapping[str, Operation],
    require_lease: Callable[[], None],
) -> NoReturn:
    """Write an answer for each item to the pipe, as `answer_pieces` does, and end this process.

    `require_lease` raises LeaseOverError if the next item must not be started.
    """
    status = 1
    try:
        child_states.stop_with_children()
        lead_group(0)
        account = read_account(request["uid"])
        policy.identities.check_names(account)
        confinement.drop_capability_bounds()
        become(account)
        user_paths.keep_home(account.uid, account.home)
        _confine(request, policy)
        _limit(request["operation"])
        paths, operation = requests.list_directories(request), request["operation"]
        parser = SharedParser(request["uid"], paths, policy.allowed_roots)
        shared: dict[str, Any] = {"parser": parser, "memory": {}}
        with os.fdopen(pipe, "wb") as out, parser:
            until = time.monotonic() + request["deadline_seconds"]
            for index, item in enumerate(request["items"]):
                require_lease()  # once more: the whole host may have been frozen meanwhile
                seconds = max(0.0, until - time.monotonic()) / (len(request["items"]) - index)
                with collector_paused():  # until the answer is written: the collector would go through all of it
                    answer_pieces.write_answer(out, index, answer(operation, item, policy, operations, seconds, shared))
        status = 0
    except (DeniedUserError, LeaseOverError) as error:
        with os.fdopen(pipe, "wb") as out:
            out.write(json.dumps({"refused": str(error)}).encode() + b"\n")
    except Exception as error:  # noqa: BLE001 - the child must end here and never return into the agent's loop
        sys.stderr.write(f"agent: request {request['id']} failed: {type(error).__name__}: {error}\n")
    finally:
        os._exit(status)


def lead_group(process_id: int) -> None:
    """Put a child into a process group of its own; parent and child both do it, because either may run first."""
    with contextlib.suppress(OSError):
        os.setpgid(process_id, process_id)


def answer(
    operation: str,
    item: Any,
    policy: RequestPolicy,
    operations: Mapping[str, Operation],
    seconds: float,
    shared: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """Run one operation; if an item fails, its answer is the error, and the next item continues.

    An operation that can be done in parts should take no longer than these seconds. `shared` is the same for all items
    of a request: one that reads a directory of it may use the `parser`, and leave in `memory` what later items need.
    """
    try:
        completed = requests.complete(operation, item, policy)
        return operations[operation]({**completed, "seconds": seconds, **shared})
    except OSError as error:
        return {"unknown": error.strerror or str(error)}
    except CkptdError as error:
        return {"unknown": str(error)}
    except Exception as error:  # noqa: BLE001 - the content of one directory must not stop the scan of the next
        return {"unknown": f"{type(error).__name__}: {error}"}


def _confine(request: dict[str, Any], policy: RequestPolicy) -> None:
    """Leave the process only the system calls that the request needs."""
    if requests.needs_programs(request, policy):
        orphans.adopt()  # what its programs leave behind ends with this process, and not while they are at work
        confinement.confine_commands()
        return
    confinement.confine_files()


def _limit(operation: str) -> None:
    if operation in READS_MANIFESTS:
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        wanted = limited_child.read_mapped_bytes() + TRASH_MEMORY_BYTES
        amount = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_AS, (amount, amount))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (MAX_OPEN_FILES, MAX_OPEN_FILES))
    os.nice(10)
    os.umask(0o077)
