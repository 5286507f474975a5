"""The worker processes that run and judge submissions: forks of a fork server, or new processes."""
