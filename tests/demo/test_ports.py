"""Whoever starts servers side by side gets ports that no other caller gets meanwhile."""

import multiprocessing
import socket

from demo import ports
from demo.cluster import PrivateCluster


def test_a_held_port_is_refused_to_every_other_caller_and_a_server_may_listen_on_it():
    (port,) = ports.find_free_ports(1)

    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(ports.hold, (port,)) is False
    assert not ports.is_served(port)
    with socket.create_server(("127.0.0.1", port)):
        assert ports.is_served(port)


def test_no_more_than_the_newest_ports_are_held():
    first, *_ = ports.find_free_ports(65)

    assert ports.hold(first)


def test_a_cluster_starts_again_with_other_ports_where_a_node_s_was_taken(monkeypatch):
    takers = []
    find = ports.find_free_ports

    def find_ports_of_which_the_first_time_one_is_taken(count):
        found = find(count)
        if not takers:
            takers.append(socket.create_server(("127.0.0.1", found[-1])))
        return found

    monkeypatch.setattr(ports, "find_free_ports", find_ports_of_which_the_first_time_one_is_taken)
    with PrivateCluster(name="ports") as cluster:
        states = cluster.command("sinfo", "--noheader", "--Node", "--format=%T", "--partition=main").split()
    takers[0].close()

    assert states == ["idle", "idle"]
