"""Which ratios `bench/runtimes` tells of a start and of a path, and what a bare container is made of."""

import importlib.machinery
import importlib.util
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import bare

LOADER = importlib.machinery.SourceFileLoader("runtimes", str(Path(__file__).resolve().parent / "runtimes"))
runtimes = importlib.util.module_from_spec(importlib.util.spec_from_loader(LOADER.name, LOADER))
LOADER.exec_module(runtimes)


def round_of(own, whole, peer, times=1):
    """A round with the seconds of one container and of eight, of each side."""
    sides = {runtimes.NODES: own, runtimes.COMMAND: whole, "peer": peer}
    return {(side, count): took * times for side, both in sides.items() for count, took in zip((1, 8), both, strict=True)}


class Start(unittest.TestCase):
    ROUND = round_of((3, 17), (5, 19), (2, 9))

    def figures(self, rounds):
        return {what: runtimes.interval_of(rounds, figure) for what, _, figure in runtimes.figures_of("peer")}

    def test_the_nodes_and_the_whole_command_are_told_apart(self):
        found = self.figures([self.ROUND] * 3)
        self.assertEqual({what: value for what, (value, *_) in found.items()}, {
            "one": 1.5, "eight": 17 / 9, "each further": 2, "whole command of one": 2.5, "whole command of eight": 19 / 9,
        })  # fmt: skip

    def test_a_start_ends_with_the_last_node(self):
        nodes = [{"start": {"began_ns": began, "ready_ns": ready}} for began, ready in ((10, 3e9), (5e8, 2e9))]
        self.assertAlmostEqual(runtimes.seconds_of(nodes), 3, places=6)

    def test_a_round_in_which_all_was_slow_changes_no_ratio(self):
        slow = round_of((3, 17), (5, 19), (2, 9), times=10)
        for value, low, high, _ in self.figures([self.ROUND, slow, self.ROUND]).values():
            self.assertAlmostEqual(value, low)
            self.assertAlmostEqual(value, high)

    def test_an_interval_holds_its_figure(self):
        rounds = [round_of((3 + i, 17 + i), (5 + i, 19 + i), (2, 9)) for i in range(12)]
        # Medians of two sides from different rounds: their ratio is beyond that of each round.
        crossed = [round_of((1, 9), (1, 9), (3, 11)), round_of((2, 10), (2, 10), (2, 10)), round_of((3, 11), (3, 11), (9, 17))]
        for some, spread in ((rounds, "95 %"), (rounds[:9], "range"), (crossed, "range")):
            for value, low, high, kind in self.figures(some).values():
                self.assertEqual(kind, spread)
                self.assertLessEqual(low, value)
                self.assertLessEqual(value, high)

    def test_one_round_has_no_ends(self):
        self.assertEqual({ends for _, *ends in map(tuple, self.figures([self.ROUND]).values()) for ends in [tuple(ends)]}, {(None, None, "range")})

    def test_every_runtime_has_a_peer_and_docker_has_two(self):
        peers = [kind.runtime for kind in bare.KINDS]
        self.assertEqual(set(peers), set(bare.TOOLS))
        self.assertEqual(peers.count("docker"), 2)
        self.assertEqual(len({kind.name for kind in bare.KINDS}), len(bare.KINDS))

    def test_a_lab_names_its_runtime(self):
        with tempfile.TemporaryDirectory() as place, mock.patch.dict("os.environ", {runtimes.common.INSIDE: "x"}):
            name, file = runtimes.lab(Path(place), "lxc", 2)
            self.assertEqual(name, "lxc2-x")
            self.assertEqual(file.read_text().count("{kind: container, runtime: lxc}"), 2)


class Paths(unittest.TestCase):
    def test_a_published_port_is_also_compared_with_a_nat(self):
        self.assertEqual(runtimes.peers_of("docker, published port"), [runtimes.BRIDGE, runtimes.NAT])
        self.assertEqual(runtimes.peers_of("lxc, bridge"), [runtimes.BRIDGE])
        self.assertEqual(runtimes.peers_of(runtimes.NAT), [runtimes.BRIDGE])
        self.assertEqual(runtimes.peers_of(runtimes.BRIDGE), [])

    def test_a_round_without_an_answer_of_one_way_is_left_out_for_all(self):
        found = [("near", {"a": (2.0, 1), "b": (1.0, 1)})] * 3 + [("near", {"a": (0.0, 1), "b": (1.0, 1)})]
        arguments = mock.Mock(fifo=False, seconds=1)
        with mock.patch.object(runtimes.common, "turns", return_value=found), mock.patch("builtins.print") as printed:
            self.assertEqual(runtimes.network_rounds("tcp-rr", {}, (0, 1), arguments), [{"a": 2.0, "b": 1.0}] * 3)
        self.assertIn("1 of 4 rounds do not count", printed.call_args.args[0])

    def test_only_the_server_publishes(self):
        self.assertEqual(runtimes.publish(0), [])
        self.assertEqual(runtimes.publish(1)[1::2], ["6000:6000", "6000:6000/udp", "6001:6001", "6001:6001/udp"])


class Roots(unittest.TestCase):
    def test_libraries_are_the_paths_that_ldd_names(self):
        said = "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x2)\n\t/lib64/ld-linux-x86-64.so.2 (0x3)\n"
        self.assertEqual(bare.libraries(said), ["/lib/x/libc.so.6", "/lib64/ld-linux-x86-64.so.2"])
        self.assertEqual(bare.libraries("\tnot a dynamic executable\n"), [])


if __name__ == "__main__":
    unittest.main()
