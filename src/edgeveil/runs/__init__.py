"""Many runs: a plan becomes runs, one engine measures them, executors carry them out, one store keeps every row."""
