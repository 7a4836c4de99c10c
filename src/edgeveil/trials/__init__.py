"""The server's guard tried out: attackers and honest users in one process, and the query limit they suggest."""
