"""The small fabric of these programs: two planes of two T0s and two T1s each, four hosts, 100 Gb/s."""

TINY = {"planes": 2, "t0s": 2, "t1s": 2, "hosts_per_t0": 2, "link": {"rate": "100Gb/s", "delay": "600ns"}}
FILE = {"name": "file", "kind": "write", "from": "h1", "to": "h3", "size": "1 MiB"}
