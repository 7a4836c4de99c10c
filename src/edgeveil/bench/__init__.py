"""Many runs: a plan becomes runs, executors carry them out, a store keeps every row, papers are compared with it."""
