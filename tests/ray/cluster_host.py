"""A cluster of a head and two workers, run as a script: ``cluster_host.py FOLDER``.

It takes commands from its standard input, one a line, and answers each with a line that begins
with ``ANSWER``: ``kill NODE`` kills a worker at once, ``add`` adds one. The first answer is the
cluster's address; when the input ends, so does the cluster. A process of its own, as Ray does not
take a cluster and another instance in one.
"""

from __future__ import annotations

import sys
from typing import Any

from ray.cluster_utils import Cluster

MEMORY = {"object_store_memory": 80 * 2**20}


def answer(text: str) -> None:
    """Write an answer."""
    print(f"ANSWER {text}", flush=True)  # noqa: T201 - that is how it is asked


def main() -> None:
    """Start the cluster, take commands, and shut it down."""
    head: dict[str, Any] = {"num_cpus": 0, "include_dashboard": False, "temp_dir": sys.argv[1]}
    cluster = Cluster(initialize_head=True, head_node_args={**head, **MEMORY})
    for _ in range(2):
        cluster.add_node(num_cpus=1, **MEMORY)
    answer(str(cluster.address))
    for line in sys.stdin:
        command, *names = line.split()
        if command == "kill":
            (victim,) = (node for node in cluster.worker_nodes if node.node_id == names[0])
            cluster.remove_node(victim, allow_graceful=False)
        else:
            cluster.add_node(num_cpus=1, **MEMORY)
        answer(command)
    cluster.shutdown()


if __name__ == "__main__":
    main()
